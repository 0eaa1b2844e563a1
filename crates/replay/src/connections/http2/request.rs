//! How clients ask over HTTPS (RFC 8484 §4.1).

/// The port of HTTPS, which an authority does not name (RFC 9110 §4.2.2).
pub const HTTPS_PORT: u16 = 443;

/// How a query is put into a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DohMethod {
    /// As the body.
    #[default]
    Post,
    /// In the target, encoded.
    Get,
}

/// How clients ask over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DohSettings {
    /// How a query is put into a request.
    pub method: DohMethod,
    /// The path asked for.
    path: String,
}

/// A path that no request can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no path; give one such as /dns-query, of visible ASCII without ? and #")]
pub struct BadPath(pub String);

impl DohMethod {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Get => "get",
        }
    }
}

impl DohSettings {
    /// The path that servers have unless told otherwise.
    pub const PATH: &'static str = "/dns-query";

    /// Settings with this path.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(method: DohMethod, path: &str) -> Result<Self, BadPath> {
        let is_path =
            path.starts_with('/') && path.bytes().all(|octet| octet.is_ascii_graphic() && !b"?#".contains(&octet));
        if is_path { Ok(Self { method, path: path.to_owned() }) } else { Err(BadPath(path.to_owned())) }
    }

    /// The path asked for.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Default for DohSettings {
    fn default() -> Self {
        Self { method: DohMethod::default(), path: Self::PATH.to_owned() }
    }
}
