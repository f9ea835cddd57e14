//! The driver and NVML.

use super::{Check, NvmlFacts};

const SUBJECT: &str = "driver";

/// The oldest driver line that has been tried with NVML's second memory call (510).
const OLDEST: u32 = 510;

pub(super) fn checks(nvml: &NvmlFacts) -> Vec<Check> {
    let driver = match nvml {
        NvmlFacts::Unavailable(reason) => {
            // The reason ends with what to do, behind a colon.
            let (finding, advice) = reason.split_once(": ").unwrap_or((reason, ""));
            let advice = match advice {
                "" => "is this a machine with an NVIDIA GPU? nvidia-smi may say more",
                advice => advice,
            };
            return vec![Check::error(SUBJECT, finding, advice)];
        }
        NvmlFacts::Silent(seconds) => {
            return vec![Check::error(
                SUBJECT,
                format!("NVML did not answer within {seconds} s"),
                "does nvidia-smi answer? If not, the driver hangs: see `dmesg | grep -i xid`, reset the GPU or reboot",
            )];
        }
        NvmlFacts::Answered(driver) => driver,
    };
    let version = driver.version.as_deref().unwrap_or("of unknown version");
    let cuda = driver.cuda.map_or(String::new(), |(major, minor)| {
        format!(", runs CUDA up to {major}.{minor}")
    });
    let finding = format!("NVIDIA {version}{cuda}");
    let major: Option<u32> = version.split('.').next().and_then(|text| text.parse().ok());
    let mut checks = vec![match major {
        Some(major) if major < OLDEST => Check::warning(
            SUBJECT,
            finding,
            format!("drivers before {OLDEST} do not tell all figures; update it"),
        ),
        Some(_) | None => Check::ok(SUBJECT, finding),
    }];
    checks.extend(driver.unreadable.iter().map(|reason| {
        Check::error(
            "GPU",
            reason.clone(),
            "see `nvidia-smi` and `dmesg | grep -i xid`; reset the GPU or reboot",
        )
    }));
    checks
}
