//! Lists the servers that come as files of `data/servers`, so that another one needs no more than its file.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../data/servers").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let mut list = String::new();
    for path in paths {
        let name = path.file_stem().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        // The text, and not the path: builds in two folders are the same.
        write!(list, "({name:?}, {:?}), ", fs::read_to_string(&path)?)?;
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("ready_made.rs"), format!("&[{list}]"))?;
    Ok(())
}
