//! Whether a remedy took effect, as far as the run itself says it once it has started.
//!
//! A program or a library may set the allocator in its own code after oomph has set it in the
//! environment, or choose its device itself. What was promised and did not come is said at once,
//! not after the next out-of-memory.

use super::plan::{Remedy, RemedyId};
use crate::event::Hello;
use crate::recognize::alloc_conf::AllocConf;
use crate::units::Uuid;

/// What did not take effect, in words; `failed` is the device that ran out of memory before.
pub fn not_in_force(applied: &[Remedy], hello: &Hello, failed: Option<&Uuid>) -> Vec<String> {
    applied
        .iter()
        .filter_map(|remedy| match remedy.id {
            RemedyId::ExpandableSegments => {
                (hello.expandable_segments == Some(false)).then(|| segments_off(hello))
            }
            RemedyId::MaxSplitSize => {
                let conf = AllocConf::parse(hello.alloc_conf.as_deref()?).ok()?;
                conf.value("max_split_size_mb").is_none().then(|| {
                    "the largest split is not in force: something in the program sets the \
                     allocator itself"
                        .into()
                })
            }
            RemedyId::Device => {
                let [only] = hello.devices.as_slice() else {
                    return None;
                };
                (only.uuid.is_some() && only.uuid.as_ref() == failed).then(|| {
                    "the run is on the same GPU as before: the program chooses it itself".into()
                })
            }
            RemedyId::Batch
            | RemedyId::Amp
            | RemedyId::Recompute
            | RemedyId::Resume
            | RemedyId::DataloaderWorkers
            | RemedyId::Wait
            | RemedyId::StopLeftover
            | RemedyId::Without => None,
        })
        .collect()
}

fn segments_off(hello: &Hello) -> String {
    let why = match hello.backend.as_deref() {
        Some(backend) if backend != "native" => {
            format!("the program has switched to the allocator {backend}")
        }
        Some(_) | None => match &hello.alloc_conf {
            Some(conf) if conf.contains("expandable_segments:True") => {
                "this platform does not have them".into()
            }
            Some(conf) if !conf.is_empty() => {
                format!("something in the program has set the allocator to {conf}")
            }
            Some(_) | None => {
                "something in the program sets the allocator itself, or the platform does not \
                 have them"
                    .into()
            }
        },
    };
    format!("expandable segments are not in force: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ProbeDevice;
    use crate::remedy::{Availability, Expectation};
    use crate::units::{Bytes, Pid, RunNumber};

    fn hello(expandable: Option<bool>, conf: Option<&str>) -> Hello {
        Hello {
            pid: Pid(7),
            run: RunNumber::FIRST,
            rank: None,
            local_rank: None,
            world_size: None,
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

    fn applied(id: RemedyId) -> [Remedy; 1] {
        [Remedy {
            id,
            key: 'x',
            title: String::new(),
            availability: Availability::Offered,
            edits: Vec::new(),
            files: Vec::new(),
            changes: String::new(),
            expectation: Expectation {
                needs: None,
                at_least: None,
                fits: None,
                words: String::new(),
                ..Expectation::default()
            },
            takes: None,
            alters: None,
            cost: String::new(),
        }]
    }

    #[test]
    fn what_did_not_take_effect_is_said() {
        let said = |id, hello: &Hello, failed: &str| {
            not_in_force(&applied(id), hello, Some(&Uuid::new(failed))).join("; ")
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
        assert!(said(split, &hello(None, Some("")), "").contains("largest split"));
        assert!(said(RemedyId::Device, &hello(None, None), "aa").contains("same GPU"));
        assert_eq!(said(RemedyId::Device, &hello(None, None), "bb"), "");
        assert_eq!(said(RemedyId::Batch, &platform, "aa"), "");
    }
}
