//! Why NVML can't be used, in one line that says what to do. The return values are those of
//! `nvmlReturn_t` in NVIDIA's nvml.h.

use nvml_wrapper::error::NvmlError;

/// The line for an error of initialisation.
pub(super) fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(error) => missing(&error.to_string()),
        NvmlError::LibraryNotFound => missing("a library it needs is missing"),
        NvmlError::FailedToLoadSymbol(symbol) => format!(
            "this NVML is too old, or not NVML at all ({symbol}): is libnvidia-ml.so.1 the driver's?"
        ),
        NvmlError::DriverNotLoaded => {
            "the NVIDIA driver is not loaded: load it (modprobe nvidia), \
             or give the container its GPUs (docker run --gpus all)"
                .into()
        }
        NvmlError::LibRmVersionMismatch => "the NVIDIA driver and its library differ in version \
             (updated while in use): reload the nvidia modules or reboot"
            .into(),
        NvmlError::NoPermission => "no permission to use the NVIDIA driver: check the modes of \
             /dev/nvidia* and the groups of your user"
            .into(),
        NvmlError::GpuLost => "the GPU is lost (fallen off the bus): reset it or reboot".into(),
        error => format!("NVML does not start: {error}; nvidia-smi may say more"),
    }
}

fn missing(error: &str) -> String {
    // Of the loader's words only what is not said here anyway: why a library that is there won't do.
    let is_absent = error.contains("No such file") || error.contains("cannot open shared object");
    let why = match is_absent {
        true => String::from("no libnvidia-ml.so.1"),
        false => format!(
            "libnvidia-ml.so.1 cannot be loaded ({})",
            error.split(": ").last().unwrap_or(error)
        ),
    };
    format!("{why}: install the NVIDIA driver, or run the container with --gpus all")
}

/// Why a device gives no more readings, if that is what `error` means.
pub(super) fn lost(error: &NvmlError) -> Option<&'static str> {
    match error {
        NvmlError::GpuLost => Some("GPU is lost"),
        NvmlError::ResetRequired => Some("GPU needs a reset"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_one_line_that_says_what_to_do() {
        for (error, words) in [
            (NvmlError::DriverNotLoaded, "--gpus all"),
            (NvmlError::LibRmVersionMismatch, "reboot"),
            (NvmlError::NoPermission, "/dev/nvidia*"),
            (NvmlError::LibraryNotFound, "install the NVIDIA driver"),
            (NvmlError::Unknown, "nvidia-smi"),
            (
                NvmlError::FailedToLoadSymbol("nvmlInit_v2".into()),
                "nvmlInit_v2",
            ),
        ] {
            let line = reason(&error);
            assert!(line.contains(words), "{line}");
            assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        }
    }
}
