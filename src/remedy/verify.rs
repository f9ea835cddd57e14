//! Whether a remedy took effect, as far as the run reports it after its start.
//!
//! A program or a library may configure the allocator in its own code, overriding the environment,
//! or choose its device itself. This is reported at once, not after the next OOM.

use super::plan::Remedy;
use crate::event::Hello;
use crate::units::Uuid;

/// What did not take effect, for display; `failed` is the device that ran out of memory before.
pub fn not_in_force(applied: &[Remedy], hello: &Hello, failed: Option<&Uuid>) -> Vec<String> {
    let verify = |remedy: &Remedy| remedy.id.spec().verify?(hello, failed);
    applied.iter().filter_map(verify).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ProbeDevice;
    use crate::remedy::RemedyId;
    use crate::units::{Bytes, Pid, RunNumber};

    fn hello(expandable: Option<bool>, conf: Option<&str>) -> Hello {
        Hello {
            pid: Pid(7),
            run: RunNumber::FIRST,
            rank: None,
            local_rank: None,
            world_size: None,
            nodes: None,
            node: None,
            slurm_step: None,
            python: "3.12.3".into(),
            torch: "2.11.0".into(),
            devices: vec![ProbeDevice {
                ordinal: 0,
                uuid: Some(Uuid::new("aa")),
                name: "card".into(),
                total: Bytes::gib(24),
            }],
            backend: Some("native".into()),
            alloc_conf: conf.map(str::to_string),
            expandable_segments: expandable,
            resting: None,
        }
    }

    #[test]
    fn what_did_not_take_effect_is_said() {
        let said = |id, hello: &Hello, failed: &str| {
            not_in_force(&[Remedy::new(id)], hello, Some(&Uuid::new(failed))).join("; ")
        };
        let segments = RemedyId::ExpandableSegments;
        assert_eq!(said(segments, &hello(Some(true), None), ""), "");
        assert_eq!(said(segments, &hello(None, None), ""), "", "not known");
        let off = said(
            segments,
            &hello(Some(false), Some("max_split_size_mb:64")),
            "",
        );
        assert!(
            off.contains("set the allocator to max_split_size_mb:64"),
            "{off}"
        );
        let platform = hello(Some(false), Some("expandable_segments:True"));
        assert!(said(segments, &platform, "").contains("platform"));
        let split = RemedyId::MaxSplitSize;
        assert_eq!(
            said(split, &hello(None, Some("max_split_size_mb:128")), ""),
            ""
        );
        assert!(said(split, &hello(None, Some("")), "").contains("max_split_size_mb"));
        assert!(said(RemedyId::Device, &hello(None, None), "aa").contains("same GPU"));
        assert_eq!(said(RemedyId::Device, &hello(None, None), "bb"), "");
        assert_eq!(said(RemedyId::Batch, &platform, "aa"), "");
    }
}
