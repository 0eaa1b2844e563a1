"""Figures of the papers and talks, made again: what the folders beside this one have in common.

    experiments/NAME/            figure.py        title, source, scale; what it draws and claims
                                 experiment.toml  the full form, for `ldplayer experiment` (none where the figure measures by itself)
                                 small.toml       what the small form has instead
                                 about.md         what they did, what this does, why it differs
    python -m figures ──► form ──► ldplayer experiment ──► runs ──► figure.py: claims and pictures ──► pages
"""
