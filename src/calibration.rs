//! What was measured of torch, CUDA and GPUs: every figure once, with its source and spread.
//!
//! Unless said otherwise: one NVIDIA H200, driver 580, torch 2.11, eight models (GPT-2 in fp32,
//! bf16 and with activation checkpointing, ResNet-50, ViT-B/16, BERT with random lengths, a small
//! U-Net). The memory a training needs is the smallest cap under which eight steps run, by
//! bisection, as a factor on the allocated peak.

pub mod gpus;

use crate::units::Bytes;

/// Factors on the allocated peak: at the least, usually, at the most.
pub type Factors = (f64, f64, f64);

/// What expandable segments need: 1.003 to 1.04, 1.01 in the median. The U-Net needed less than
/// its uncapped peak (cuDNN then picks smaller workspaces), so that 1 is the least.
pub const EXPANDABLE: Factors = (1.0, 1.01, 1.04);

/// The share of what lay in holes at an out-of-memory that expandable segments may hold as well: they give back whole pages of
/// 20 MiB, and what a program keeps from step to step leaves holes that are smaller. Simulated (the demo's fragmentation,
/// below caps): 0.28 to 0.4. What the peak itself may come to is counted beside it.
pub const HOLES_STAY: f64 = 0.35;

/// What they map and give back at once, of large blocks.
pub const EXPANDABLE_PAGE: Bytes = Bytes::mib(20);

/// What segments of fixed size need: 1.02 to 1.29, 1.06 in the median. Other models reached 1.40.
pub const FIXED: Factors = (1.0, 1.06, 1.40);

/// The least waste that fixed segments had, as a share of what is allocated (ResNet-50, ViT-B/16).
pub const FIXED_LEAST_WASTE: f64 = 0.02;

/// A run that is given less than it reserved by itself does with a share of what it reserved above
/// its peak: 0.5 to 1.4 (decoders, BERT, with and without checkpointing), most often nearly all.
/// A prediction takes this, which seldom is too little.
pub const OVERHEAD_NEEDED_SAFELY: f64 = 0.92;

/// The likeliest such share, for a search, whose runs may fail: too careful a guess would stop it short of
/// the largest batch. Chosen on the limits in `live/policy/fit/search/limits.toml`.
pub const OVERHEAD_NEEDED_LIKELY: f64 = 0.7;

/// Nearly all of it could be given back where no more than this share of the peak was ever in
/// inactive split blocks, or where so many times as much as those was reserved above the peak
/// (the others reserved 0.9 to 1.8 times as much).
pub const FEW_PIECES: f64 = 0.10;
pub const MANY_TIMES: f64 = 1.9;

/// What such runs need (convolutional networks, vision transformers): at most 1.02, although they
/// had reserved 1.03 to 1.60.
pub const FEW_PIECES_NEED: Factors = (1.0, 1.02, 1.10);

/// How much more may be reserved, as a share of the peak, for each doubling of the batch (decoders
/// with checkpointing: 1.06 at 16, 1.19 at 32, 1.27 at 61).
pub const GROWTH_PER_DOUBLING: f64 = 0.15;

/// Most trainings keep 2 to 8 % of what is reserved in PyTorch's cache without any harm.
pub const USUAL_CACHE: f64 = 0.08;

/// What one process usually holds outside PyTorch's allocator: its CUDA context, 518 MiB, and some
/// workspaces of cuBLAS and cuDNN.
pub const NON_TORCH_USUAL: Bytes = Bytes::mib(640);

/// What a process without NCCL holds outside PyTorch's allocator at the most: a context takes 300 to 600 MiB, depending on
/// GPU and driver, and cuBLAS, cuDNN and lazily loaded kernels as much again.
pub const NON_TORCH_AT_MOST: Bytes = Bytes::mib(1_200);

/// What one with NCCL's buffers holds there at the most. A process that holds more than this beside what its
/// allocator reserved is another one.
pub const NON_TORCH_WITH_NCCL: Bytes = Bytes::gib(4);

/// PyTorch's allocator asks the driver for 2 MiB for small tensors and for 20 MiB for middling
/// ones (`kSmallBuffer` and `kLargeBuffer` in CUDACachingAllocator).
pub const SMALL_SEGMENT: Bytes = Bytes::mib(2);
pub const LARGE_SEGMENT: Bytes = Bytes::mib(20);

/// What checkpointing leaves of the activations: 13 % (ViT-B/16) to 70 % (ResNet-50), 47 % of
/// GPT-2's.
pub const CHECKPOINTING_LEAVES: Factors = (0.15, 0.42, 0.75);

/// What is left of the activations where what a forward saves waits in RAM: 7 to 21 % by rehearsals (ResNet-50, ViT-B/16,
/// ConvNeXt, BERT, a decoder of 32,000 words, whose logits are most of what stays).
pub const OFFLOADING_LEAVES: Factors = (0.05, 0.18, 0.5);

/// Bytes a second between a GPU and pinned memory of the host, at the least, usually and at the most: what PCI Express of 3rd,
/// 4th and 5th generation carries over 16 lanes. No measurement.
pub const HOST_LINK: Factors = (11e9, 23e9, 50e9);

/// What bf16 autocast leaves of the activations: 83 % of GPT-2's, whose loss and logits stay in
/// fp32. Half is what 16 bits can do at best.
pub const AUTOCAST_LEAVES: Factors = (0.5, 0.8, 1.0);

/// The bf16 copies of weights that autocast caches, at the most, as a share of what stays between
/// steps: half of the weights, which are a third of that with Adam.
pub const AUTOCAST_CASTS: f64 = 0.17;

/// Numbers that Adam keeps for each parameter. SGD keeps none.
pub const ADAM_STATE: f64 = 2.0;

/// The most that an optimizer step allocates while it runs where it takes all parameters at once
/// (`foreach`), as a share of the parameters.
pub const FOREACH_TEMPORARIES: f64 = 1.0;

/// The share of Adam's state that 8 bits save: two fp32 words a parameter become two bytes and some
/// scales.
pub const EIGHT_BIT_ADAM_SAVES: f64 = 0.74;

/// How much more a forward may keep than its share says, at the most: the probe weighs modules by
/// their outputs and does not see what functions outside modules keep. On the CPU, at 135 points of
/// the forwards of 17 models, the whole was up to 1.23 times what was extrapolated, 0.97 times in
/// the median. The rest is for what a GPU's kernels keep in addition. Of 89 points of 30 other models of
/// torchvision and timm (fake tensors, torch 2.11) 83 were within it.
pub const FORWARD_SPREAD: f64 = 1.35;

/// How much more a backward may need than its share says: the activations are all there, the largest gradients may be to come.
pub const BACKWARD_SPREAD: f64 = 1.15;

/// What fails near the end of a forward is often the logits or their softmax; the loss keeps as
/// much again, and their gradient is as large.
pub const LOSS_COPIES: f64 = 2.0;
