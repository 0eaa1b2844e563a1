//! The TCP/UDP ratio study as files, a page, a picture and text.

mod draw;
mod page;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;

use ldplayer_results::ResultsError;
use ldplayer_results::ratio::Study;
use ldplayer_results::store::replace;

pub use self::text::StudyText;

/// Writes `ratio.json`, `ratio.html` and `ratio.svg` into a directory.
///
/// # Errors
/// What the system refused.
pub fn write(study: &Study, directory: &Path) -> Result<(), ResultsError> {
    let path = directory.join("ratio.json");
    let mut text = serde_json::to_vec_pretty(study).map_err(ResultsError::json(&path))?;
    text.push(b'\n');
    replace(&path, &text)?;
    page::write(study, &directory.join("ratio.html"))?;
    replace(&directory.join("ratio.svg"), draw::picture(study).as_bytes())
}
