//! Built-in models, in the same TOML form.

/// The models by their names.
pub const PRESETS: [(&str, &str); 12] = [
    ("syn-0", include_str!("../../presets/syn-0.toml")),
    ("syn-1", include_str!("../../presets/syn-1.toml")),
    ("syn-2", include_str!("../../presets/syn-2.toml")),
    ("syn-3", include_str!("../../presets/syn-3.toml")),
    ("syn-4", include_str!("../../presets/syn-4.toml")),
    ("poisson", include_str!("../../presets/poisson.toml")),
    ("bursts", include_str!("../../presets/bursts.toml")),
    ("ramp", include_str!("../../presets/ramp.toml")),
    ("steps", include_str!("../../presets/steps.toml")),
    ("identical", include_str!("../../presets/identical.toml")),
    ("resolver", include_str!("../../presets/resolver.toml")),
    ("root-like", include_str!("../../presets/root-like.toml")),
];
