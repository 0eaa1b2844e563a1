"""The pages: figures/README.md with one row a claim, and one page a figure."""

import json
import re
import shutil

from .claim import NO, YES

HEAD = ("| claim | theirs | ours | same direction | why |", "|---|---|---|---|---|")


def overview(out):
    """Writes README.md of all figures that have been made in this folder, in whichever form."""
    write_overview(out, sorted(out.glob("*/claims.json")), "{}/README.md")


def write_overview(out, claims, page):
    """Writes README.md with the claims of these files; `page` is where the page of a figure is, with {} for its name."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in claims]
    linked = [(figure, page.format(figure["name"])) for figure in found]
    lines = [
        "# Claims of the papers and talks, tried again",
        "",
        "One row a claim: what its source found, what was found here with the interval that holds it with 95 %, and whether it points the same",
        "way. *Not decided*: the interval holds the bound, there are too few runs, or it could not be tried here; the last column says which.",
        "Where a source says that one thing is so many times another, *no* is also what is *alike*: its whole interval is between 0.8 and 1.25, and theirs beyond both.",
        "*Holds* and *does not hold*: a question that the source did not ask or did not answer, by the bound that the claim or the last column names.",
        "*No claim*: a figure that nobody foretold.",
        "",
        f"| source {HEAD[0]}",
        f"|---{HEAD[1]}",
    ]
    lines += [row(f"[{figure['source']}]({path})", *told(claim)) for figure, path in linked for claim in figure["claims"]]
    forms = ", ".join(f"[{figure['name']}]({path}): {figure['form']}, {figure['date']}" for figure, path in linked)
    sizes = "*Small* takes all figures together less than an hour, *long* takes what the claims need of two cores, *full* takes hours of a large machine."
    lines += ["", f"Made in these forms: {forms}. {sizes}", ""]
    (out / "README.md").write_text("\n".join(lines), encoding="utf-8")


def publish(out, docs):
    """Copies pages to where the documentation is: NAME.md, pictures/NAME-*.png, claims/NAME.json, and README.md with all claims there.

    Figures that were not made in this folder stay as they were published before.
    """
    pictures, claims = docs / "pictures", docs / "claims"
    for folder in (pictures, claims):
        folder.mkdir(parents=True, exist_ok=True)
    for made in sorted(out.glob("*/claims.json")):
        folder = made.parent
        shutil.copy(made, claims / f"{folder.name}.json")
        text = (folder / "README.md").read_text(encoding="utf-8")
        for picture in sorted(folder.glob("*.png")):
            shutil.copy(picture, pictures / f"{folder.name}-{picture.name}")
            text = text.replace(f"({picture.stem}.svg)", f"(pictures/{folder.name}-{picture.name})")
        # Pages of other figures are beside this one there.
        text = re.sub(r"\]\(\.\./([^/)]+)/README\.md\)", r"](\1.md)", text)
        (docs / f"{folder.name}.md").write_text(text, encoding="utf-8")
    write_overview(docs, sorted(claims.glob("*.json")), "{}.md")


def told(claim):
    return [claim["claim"], claim["theirs"], claim["ours"], direction(claim), claim["why"]]


def direction(claim):
    """What the column says: whether it points the same way as the source, or, of a question of ours, whether it holds."""
    return claim["same"] if claim["is_theirs"] else {YES: "holds", NO: "does not hold"}.get(claim["same"], claim["same"])


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def page(figure, found, out):
    """Writes README.md of one figure beside its pictures."""
    about = figure.folder / "about.md"
    pictures = sorted(path.name for path in out.glob("*.svg"))
    parts = [
        f"# {found['title']}",
        f"{found['source']}. {about.read_text(encoding='utf-8').strip() if about.exists() else ''}",
        *(f"![{name.removesuffix('.svg')}]({name})" for name in pictures),
        "\n".join([*HEAD, *(row(*told(claim)) for claim in found["claims"])]),
        f"Scale ({found['form']} form): {found['scale']}",
        f"Made on {found['date']} in {found['took_s'] // 60} min {found['took_s'] % 60} s on {found['machine']}, with "
        + ", ".join(f"{name}: {version}" if name != "ldplayer" else version for name, version in found["versions"].items()) + ".",
        *([] if not found["told"] else ["What does not count, or was not faithful:\n\n" + "\n".join(f"- {line}" for line in found["told"])]),
        "Made again by `make figures "
        + {"full": "FULL=1 ", "long": "LONG=1 "}.get(found["form"], "") + f"ONLY={found['name']}`, which runs\n\n```sh\n" + "\n".join(found["commands"]) + "\n```",
    ]  # fmt: skip
    (out / "README.md").write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
