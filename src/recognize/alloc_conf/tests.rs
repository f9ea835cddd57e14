//! Versions and settings as text. `tests/commands/allocator.txt` has what is written for them.

use super::*;

#[test]
fn versions_are_read() {
    let version = |text| TorchVersion::parse(text).map(|v| (v.major, v.minor, v.rocm));
    assert_eq!(version("2.11.0+cu130"), Some((2, 11, false)));
    assert_eq!(version("2.6.0+rocm6.2.4"), Some((2, 6, true)));
    assert_eq!(version("2.4.0a0+git12ab"), Some((2, 4, false)));
    assert_eq!(version("nightly"), None);
}

#[test]
fn settings_are_read_as_the_allocator_reads_them() {
    let text = " max_split_size_mb : 64 ,roundup_power2_divisions:[256:1,>:4],";
    let conf = AllocConf::parse(text).unwrap();
    assert_eq!(conf.value("roundup_power2_divisions"), Some("[256:1,>:4]"));
    assert_eq!(
        conf.to_string(),
        "max_split_size_mb:64,roundup_power2_divisions:[256:1,>:4]"
    );
    assert_eq!(AllocConf::parse("").unwrap(), AllocConf::default());
    let error = AllocConf::parse("expandable_segments=True").unwrap_err();
    assert!(
        error.contains("write `expandable_segments:True`"),
        "{error}"
    );
    assert!(AllocConf::parse("max_split_size_mb").is_err());
}
