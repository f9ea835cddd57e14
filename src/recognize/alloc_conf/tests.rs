//! Settings read and merged, for every version of torch that reads them differently.

use super::*;

fn torch(text: &str) -> Option<TorchVersion> {
    TorchVersion::parse(text)
}

fn set(cuda: Option<&'static str>, general: Option<&'static str>) -> Inherited<'static> {
    Inherited {
        cuda,
        hip: None,
        general,
    }
}

fn expandable(inherited: Inherited<'_>, version: &str) -> Result<Vec<Assignment>, String> {
    merge("expandable_segments", "True", inherited, torch(version))
}

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

#[test]
fn the_name_that_counts_is_written_in_every_version() {
    const ON: &str = "expandable_segments:True";
    let both = vec![(CUDA, ON.to_string()), (GENERAL, ON.to_string())];
    let one = vec![(CUDA, ON.to_string())];
    assert_eq!(expandable(set(None, None), "2.4.1"), Ok(one.clone()));
    assert_eq!(expandable(set(None, None), "2.9.1"), Ok(both));
    assert_eq!(expandable(set(None, None), "2.11.0"), Ok(one.clone()));
    assert_eq!(
        merge("expandable_segments", "True", set(None, None), None),
        Ok(one)
    );
    assert!(
        expandable(set(None, None), "2.0.1")
            .unwrap_err()
            .contains("needs torch 2.1")
    );
}

#[test]
fn what_the_user_set_stays() {
    let merged = |inherited, version| expandable(inherited, version).unwrap()[0].1.clone();
    let gc = "garbage_collection_threshold:0.7";
    assert_eq!(
        merged(set(Some(gc), None), "2.6"),
        format!("{gc},expandable_segments:True")
    );
    // Since 2.10 the general name counts where the other is not set, and is hidden by it.
    assert_eq!(
        merged(set(None, Some(gc)), "2.10"),
        format!("{gc},expandable_segments:True")
    );
    assert_eq!(
        merged(set(None, Some(gc)), "2.8"),
        "expandable_segments:True"
    );
    let on_2_9 = expandable(set(None, Some(gc)), "2.9.0").unwrap();
    assert_eq!(on_2_9, [(CUDA, "expandable_segments:True".to_string())]);
    let unknown = merge("expandable_segments", "True", set(None, Some(gc)), None);
    assert!(unknown.unwrap_err().contains("depends on its version"));
    assert_eq!(
        merged(set(Some("expandable_segments:False"), None), "2.6"),
        "expandable_segments:True"
    );
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    for conf in ["max_split_size_mb:64", "backend:cudaMallocAsync"] {
        let refused = expandable(set(Some(conf), None), "2.6").unwrap_err();
        assert!(refused.contains("cannot be combined"), "{refused}");
    }
    assert!(
        expandable(set(Some("expandable_segments:True"), None), "2.6")
            .unwrap_err()
            .contains("already")
    );
    assert!(
        expandable(set(Some("a=b"), None), "2.6")
            .unwrap_err()
            .contains("cannot be read")
    );
}

#[test]
fn rocm_keeps_the_name_that_its_user_chose() {
    let inherited = Inherited {
        hip: Some("max_split_size_mb:64"),
        ..Inherited::default()
    };
    let merged = merge(
        "garbage_collection_threshold",
        "0.8",
        inherited,
        torch("2.6.0+rocm6.2"),
    );
    assert_eq!(
        merged,
        Ok(vec![(
            HIP,
            "max_split_size_mb:64,garbage_collection_threshold:0.8".to_string()
        )])
    );
}

#[test]
fn a_users_own_settings_are_checked_with_the_mend() {
    let given = |conf, version| {
        merge_user(
            conf,
            set(Some("max_split_size_mb:64"), None),
            torch(version),
        )
    };
    assert_eq!(
        given(
            "garbage_collection_threshold:0.6,max_split_size_mb:128",
            "2.6"
        ),
        Ok(vec![(
            CUDA,
            "max_split_size_mb:128,garbage_collection_threshold:0.6".to_string()
        )])
    );
    for (conf, version, mend) in [
        (
            "expandable_segments=True",
            "2.6",
            "write `expandable_segments:True`",
        ),
        (
            "expandable_segment:True",
            "2.6",
            "did you mean expandable_segments?",
        ),
        ("frobnicate:1", "2.6", "the keys are"),
        ("expandable_segments:true", "2.6", "True or False"),
        ("max_split_size_mb:20", "2.6", "at least 21"),
        ("garbage_collection_threshold:1", "2.6", "between 0 and 1"),
        ("backend:malloc", "2.6", "native or cudaMallocAsync"),
        ("per_process_memory_fraction:0.5", "2.6", "needs torch 2.10"),
        ("expandable_segments:True", "2.6", "cannot be combined"),
        ("", "2.6", "KEY:VALUE"),
    ] {
        let error = given(conf, version).unwrap_err();
        assert!(error.contains(mend), "{conf}: {error}");
    }
    assert!(
        merge_user(
            "per_process_memory_fraction:1.0",
            set(None, None),
            torch("2.12")
        )
        .is_ok()
    );
}
