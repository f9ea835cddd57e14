//! What was measured of torch, CUDA and GPUs: every figure once, with its source and spread.
//!
//! Unless said otherwise: one NVIDIA H200, driver 580, torch 2.11, eight models (GPT-2 in fp32,
//! bf16 and with activation checkpointing, ResNet-50, ViT-B/16, BERT with random lengths, a small
//! U-Net). The memory a training needs is the smallest cap under which eight steps run, by
//! bisection, as a factor on the allocated peak.

use crate::units::Bytes;

/// Factors on the allocated peak: at the least, usually, at the most.
pub type Factors = (f64, f64, f64);

/// What expandable segments need: 1.003 to 1.04, 1.01 in the median. The U-Net needed less than
/// its uncapped peak (cuDNN then picks smaller workspaces), so that 1 is the least.
pub const EXPANDABLE: Factors = (1.0, 1.01, 1.04);

/// What segments of fixed size need: 1.02 to 1.29, 1.06 in the median. Other models reached 1.40.
pub const FIXED: Factors = (1.0, 1.06, 1.40);

/// The least waste that fixed segments had, as a share of what is allocated (ResNet-50, ViT-B/16).
pub const FIXED_LEAST_WASTE: f64 = 0.02;

/// Most trainings keep 2 to 8 % of what is reserved in PyTorch's cache without any harm.
pub const USUAL_CACHE: f64 = 0.08;

/// What one process usually holds outside PyTorch's allocator: its CUDA context, 518 MiB, and some
/// workspaces of cuBLAS and cuDNN.
pub const NON_TORCH_USUAL: Bytes = Bytes::mib(640);

/// The same at the most for a process without NCCL: a context takes 300 to 600 MiB, depending on
/// GPU and driver, and cuBLAS, cuDNN and lazily loaded kernels as much again.
pub const NON_TORCH_AT_MOST: Bytes = Bytes::mib(1_200);

/// The same where NCCL's buffers are included. A process that holds more than this beside what its
/// allocator reserved is another one.
pub const NON_TORCH_WITH_NCCL: Bytes = Bytes::gib(4);

/// PyTorch's allocator asks the driver for 2 MiB for small tensors and for 20 MiB for middling
/// ones (`kSmallBuffer` and `kLargeBuffer` in CUDACachingAllocator).
pub const SMALL_SEGMENT: Bytes = Bytes::mib(2);
pub const LARGE_SEGMENT: Bytes = Bytes::mib(20);

/// The share of the activations that checkpointing the blocks saves: 30 % (ResNet-50) to 87 %
/// (ViT-B/16), 53 % for GPT-2.
pub const CHECKPOINTING_SAVES: f64 = 0.5;

/// The share of the activations that bf16 autocast saves: 16 % on GPT-2, whose fp32 weights and
/// logits stay.
pub const AUTOCAST_SAVES: f64 = 0.15;

/// The share of Adam's state that 8 bits save: two fp32 words a parameter become two bytes and some
/// scales.
pub const EIGHT_BIT_ADAM_SAVES: f64 = 0.74;
