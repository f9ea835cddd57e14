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

fn torch(text: &str) -> Option<TorchVersion> {
    Some(TorchVersion::parse(text).expect("a version"))
}

#[test]
fn a_key_is_taken_from_its_first_version_on() {
    for (key, value, before, since) in [
        ("roundup_power2_divisions", "4", "1.11.0", "1.12.1"),
        ("expandable_segments", "True", "2.0.1", "2.1.2"),
        ("release_lock_on_cudamalloc", "True", "2.1.2", "2.2.2"),
        ("pinned_use_cuda_host_register", "True", "2.1.2", "2.2.2"),
        ("pinned_use_background_threads", "True", "2.5.1", "2.6.0"),
        ("max_non_split_rounding_mb", "64", "2.5.1", "2.6.0"),
        ("large_segment_size_mb", "64", "2.10.0", "2.11.0"),
        ("throw_on_cudamalloc_oom", "True", "2.11.0", "2.12.1"),
        ("pinned_max_cached_size_mb", "64", "2.12.1", "2.13.0"),
    ] {
        let error = meaning(key, value, torch(before)).expect_err(key);
        assert!(error.contains("needs torch"), "{error}");
        meaning(key, value, torch(since)).expect(key);
    }
}

#[test]
fn values_are_those_that_the_version_takes() {
    let is_taken = |key: &str, value: &str, version| meaning(key, value, torch(version)).is_ok();
    assert!(!is_taken("max_split_size_mb", "20", "2.9.1"));
    assert!(is_taken("max_split_size_mb", "20", "2.10.0"));
    for (value, expected) in [("8", true), ("6", false), ("256", false), ("x", false)] {
        let taken = is_taken("pinned_num_register_threads", value, "2.9.1");
        assert_eq!(taken, expected, "{value}");
    }
    for (value, expected) in [
        ("4", true),
        ("0", true),
        ("3", false),
        ("[256:1,512:2,1024:4,>:8]", true),
        ("[256:1, >:3]", false),
        ("[256]", false),
    ] {
        let taken = is_taken("roundup_power2_divisions", value, "2.9.1");
        assert_eq!(taken, expected, "{value}");
    }
    assert!(!is_taken("backend", "hipMallocAsync", "2.9.1+cu130"));
    assert!(is_taken("backend", "hipMallocAsync", "2.9.1+rocm6.4"));
    let off = meaning("expandable_segments", "False", torch("2.9.1"));
    assert_eq!(off, Ok("off, as it is by default"));
}

#[test]
fn what_fails_together_fails_until_the_version_that_mended_it() {
    let found = |text: &str, version| {
        let conf = AllocConf::parse(text).expect("settings");
        conflict(&conf, TorchVersion::parse(version))
    };
    for other in ["max_split_size_mb:64", "garbage_collection_threshold:0.8"] {
        let both = format!("expandable_segments:True,{other}");
        let old = found(&both, "2.4.1");
        assert!(matches!(old, Some(Conflict::Fails(_))), "{both}: {old:?}");
        assert_eq!(found(other, "2.4.1"), None);
    }
    let both = "expandable_segments:True,max_split_size_mb:64";
    assert!(matches!(found(both, "2.5.0"), Some(Conflict::Hinders(_))));
    let both = "expandable_segments:True,garbage_collection_threshold:0.8";
    assert_eq!(found(both, "2.5.0"), None);
    let both = "expandable_segments:True,backend:cudaMallocAsync";
    assert!(matches!(found(both, "2.9.1"), Some(Conflict::Hinders(_))));
}
