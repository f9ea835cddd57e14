//! What PyTorch can see of the memory of common GPUs, by their names: less than the box says, since the driver and ECC
//! keep a part.

use crate::units::Bytes;

/// A GPU's name as people type it, and about the MiB of its `total_memory` in PyTorch, rounded down: what messages of out of memory
/// say of such GPUs ("a total capacity of …"), which differs a little with driver and ECC. Only the H200's was measured for this.
const GPUS: [(&str, u64); 42] = [
    ("B200", 182_600),
    ("H200", 143_155),
    ("H100 NVL", 95_300),
    ("H100", 80_990),
    ("H100 80GB", 80_990),
    ("GH200", 96_700),
    ("A100", 40_330),
    ("A100 40GB", 40_330),
    ("A100 80GB", 81_040),
    ("A40", 45_410),
    ("A30", 24_060),
    ("A10", 22_590),
    ("A10G", 22_590),
    ("L40S", 45_450),
    ("L40", 45_450),
    ("L4", 22_560),
    ("T4", 14_910),
    ("V100", 16_140),
    ("V100 16GB", 16_140),
    ("V100 32GB", 32_490),
    ("P100", 16_270),
    ("RTX 6000 Ada", 48_500),
    ("RTX A6000", 48_500),
    ("A6000", 48_500),
    ("RTX A5000", 24_240),
    ("RTX A4000", 15_970),
    ("RTX 5090", 32_110),
    ("RTX 5080", 15_850),
    ("RTX 5070 Ti", 15_850),
    ("RTX 5070", 11_750),
    ("RTX 4090", 24_200),
    ("RTX 4080", 16_070),
    ("RTX 4070 Ti", 12_000),
    ("RTX 4070", 11_750),
    ("RTX 4060 Ti 16GB", 15_940),
    ("RTX 4060", 7_810),
    ("RTX 3090", 24_240),
    ("RTX 3080", 9_980),
    ("RTX 3070", 7_810),
    ("RTX 3060", 11_760),
    ("RTX 2080 Ti", 10_750),
    ("GTX 1080 Ti", 10_900),
];

/// A name without what nobody agrees on: case, spaces, dashes, and the maker.
fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split([' ', '-', '_']);
    words
        .filter(|word| {
            ![
                "nvidia", "geforce", "tesla", "quadro", "sxm2", "sxm4", "sxm5", "pcie", "gpu",
            ]
            .contains(word)
        })
        .collect()
}

/// The memory of a GPU of this name. `4090` and `NVIDIA GeForce RTX 4090` are one.
pub fn memory_of(name: &str) -> Option<Bytes> {
    let wanted = plain(name);
    let is_it = |known: &&(&str, u64)| {
        let known = plain(known.0);
        known == wanted || known.trim_start_matches("rtx") == wanted
    };
    let found = GPUS.iter().find(is_it)?;
    Some(Bytes::mib(found.1))
}

/// The names, for those who typed another.
pub fn names() -> Vec<&'static str> {
    GPUS.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_found_by_every_way_to_write_its_name() {
        let of_4090 = memory_of("RTX 4090");
        assert_eq!(of_4090, Some(Bytes::mib(24_200)));
        for name in [
            "rtx4090",
            "4090",
            "NVIDIA GeForce RTX 4090",
            "geforce-rtx-4090",
        ] {
            assert_eq!(memory_of(name), of_4090, "{name}");
        }
        assert_eq!(memory_of("RTX 9999"), None);
        assert_eq!(memory_of("A100-SXM4-80GB"), memory_of("A100 80GB"));
        assert_eq!(memory_of("NVIDIA H100 PCIe"), memory_of("h100"));
        assert!(memory_of("RTX 4090").unwrap() < Bytes::gib(24));
    }
}
