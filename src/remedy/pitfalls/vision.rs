//! The rows of [`super::programs`] for programs that look at pictures.

use super::programs::check;

#[test]
fn of_vision() {
    check(&[
        (
            "torchrun --nproc_per_node=4 train.py --data-dir /d --model vit_base_patch16_224 --sched cosine --lr-base 1e-3 --batch-size 192 -j 8 --aa rand-m9 --grad-accum-steps 2",
            "batch-size 192 => batch-size 96 ; steps 2 => steps 4",
            "+ --amp --amp-dtype bfloat16",
            "+ --grad-checkpointing",
        ),
        (
            "./distributed_train.sh 8 --data-dir /d --model resnet50 --sched cosine -b 96 --native-amp --grad-checkpointing",
            "-b 96 => -b 48 --grad-accum-steps 2",
            "!already on: --native-amp",
            "!already on: --grad-checkpointing",
        ),
        (
            "torchrun --nproc_per_node=8 references/classification/train.py --model resnext50_32x4d --epochs 100 -b 64",
            "-b 64 => -b 32",
            "+ --amp",
            "!no argument",
        ),
        (
            "torchrun --nproc_per_node=8 references/segmentation/train.py --lr 0.02 --dataset coco -b 4 --model fcn_resnet50 --aux-loss --test-only",
            "!only evaluates",
            "!only evaluates",
            "!only evaluates",
        ),
        (
            "python main.py -a resnet18 --dist-url tcp://127.0.0.1:9 --dist-backend nccl --multiprocessing-distributed --world-size 1 --rank 0 --batch-size=512 /data",
            "batch-size=512 => batch-size=256",
            "!no argument",
            "!no argument",
        ),
        (
            "python tools/lazyconfig_train_net.py --config-file c.py --num-gpus 4 dataloader.train.total_batch_size=32",
            "size=32 => size=16",
            "+ train.amp.enabled=True",
            "!no argument",
        ),
        (
            "python train_net.py --num-gpus 4 --config-file c.yaml SOLVER.IMS_PER_BATCH 6",
            "!cannot be split among 4",
            "+ SOLVER.AMP.ENABLED True",
            "!no argument",
        ),
        (
            "python tools/train.py configs/a.py --amp --cfg-options train_dataloader.batch_size=8",
            "batch_size=8 => batch_size=4 optim_wrapper.accumulative_counts=2",
            "!already on: --amp",
            "!no argument",
        ),
        (
            "bash tools/dist_train.sh configs/a.py 4 --work-dir w --cfg-options train_dataloader.batch_size=2 optim_wrapper.accumulative_counts=4",
            "batch_size=2 => batch_size=1 ; counts=4 => counts=8",
            "+ --amp",
            "!no argument",
        ),
        (
            "yolo segment train data=d.yaml model=yolo11n-seg.pt batch=24 device=0,1",
            "batch=24 => batch=12",
            "!on by default",
            "!no argument",
        ),
        (
            "yolo train data=d.yaml batch=9 device=0,1,2",
            "!cannot be split among 3",
            "!on by default",
            "!no argument",
        ),
        (
            "yolo export model=a.pt format=onnx batch=8",
            "!not asked to train",
            "!not asked to train",
            "!not asked to train",
        ),
        (
            "python train.py --img 640 --batch 32 --epochs 3 --data coco128.yaml --weights yolov5s.pt --cache",
            "--batch 32 => --batch 16",
            "!on by default",
            "!no argument",
        ),
        (
            "python tools/train.py -f exps/a.py -d 2 -b 32 --fp16 -o",
            "-b 32 => -b 16",
            "!already on: --fp16",
            "!no argument",
        ),
        (
            "python main_pretrain.py --batch_size 256 --model mae_vit_large_patch16 --norm_pix_loss --blr 1.5e-4",
            "batch_size 256 => batch_size 128 --accum_iter 2",
            "!on by default",
            "!no argument",
        ),
        (
            "torchrun --nproc_per_node 8 main.py --cfg configs/swin.yaml --data-path /d --batch-size 128 --disable_amp",
            "batch-size 128 => batch-size 64 --accumulation-steps 2",
            " --disable_amp => ",
            "+ --use-checkpoint",
        ),
        (
            "python -m torch.distributed.launch --nproc_per_node=8 --use_env main.py --coco_path /coco --batch_size 4",
            "batch_size 4 => batch_size 2",
            "!no argument",
            "!no argument",
        ),
        (
            "torchrun --nproc_per_node=8 main_dino.py --arch vit_small --batch_size_per_gpu 64 --use_fp16 false",
            "per_gpu 64 => per_gpu 32",
            "fp16 false => fp16 true",
            "!no argument",
        ),
        (
            "torchrun --nproc_per_node=4 train.py --model DiT-B/4 --data-path /d --global-batch-size 64",
            "batch-size 64 => batch-size 32",
            "!no argument",
            "!no argument",
        ),
        (
            "mpiexec -n 4 python scripts/classifier_train.py --data_dir d --batch_size 64 --microbatch 16 --use_fp16 True --use_checkpoint False",
            "microbatch 16 => microbatch 8",
            "!already on",
            "checkpoint False => checkpoint True",
        ),
        (
            "python train.py --outdir=o --cfg=stylegan2 --data=d.zip --gpus=2 --batch=32 --batch-gpu=8 --fp32=1",
            "batch-gpu=8 => batch-gpu=4",
            " --fp32=1 => ",
            "!no argument",
        ),
        (
            "python main.py --json_list=d.json --feature_size=48 --batch_size=2 --roi_x=96 --use_checkpoint",
            "batch_size=2 => batch_size=1",
            "!on by default",
            "!already on: --use_checkpoint",
        ),
        (
            "torchrun --nproc_per_node 8 -m open_clip_train.main --train-data d --batch-size 512 --precision fp32 --model ViT-B-32 --accum-freq 2",
            "batch-size 512 => batch-size 256 ; freq 2 => freq 4",
            "precision fp32 => precision amp_bf16",
            "+ --grad-checkpointing",
        ),
        (
            "python train.py --dataroot ./d --name a --model cycle_gan --batch_size 4 --gpu_ids 0",
            "batch_size 4 => batch_size 2",
            "!no argument",
            "!no argument",
        ),
        (
            "accelerate launch train.py --config configs/c.json --name a --batch-size 32 --evaluate-n 100 --mixed-precision no",
            "batch-size 32 => batch-size 16 --grad-accum-steps 2",
            "precision no => precision bf16",
            "!no argument",
        ),
        (
            "nnUNetv2_train 4 3d_fullres 0 -device cuda",
            "!plans file",
            "!on by default",
            "!no argument",
        ),
    ]);
}
