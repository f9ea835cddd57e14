//! The tables of what is an epoch and what is none, with numbers of our own.

use super::*;

fn said(line: &str) -> Option<LineMeaning> {
    read(line.as_bytes()).map(|(said, _)| said)
}

#[test]
fn the_wordings_of_programs_are_read() {
    for (line, number) in [
        // Keras, and most programs that are written by hand.
        ("Epoch 3/10", 3),
        ("Epoch 3", 3),
        ("epoch: 3", 3),
        ("[Epoch 3]", 3),
        ("[Epoch 3/40] loss 0.31", 3),
        ("Epoch [12/90], Step [100/840], Loss: 1.2071", 12),
        ("Epoch: 4 | train loss 0.311 | val loss 0.402", 4),
        ("Epoch #7", 7),
        ("EPOCH 3 of 9", 3),
        ("Epoch 3 / 10", 3),
        ("epochs 2/5", 2),
        ("Epoch = 6", 6),
        ("epoch 0: {'accuracy': 0.71}", 0),
        ("=> epoch 3", 3),
        ("==== Epoch 5 ====", 5),
        ("----Epoch 5----", 5),
        ("--- Epoch 5 ---", 5),
        ("Epoch 3...", 3),
        ("Starting epoch 3.", 3),
        ("End of epoch 8", 8),
        ("Beginning of Epoch 2/4, Total Micro Batches 310", 2),
        // PyTorch's examples, torchvision's references, OpenCLIP.
        ("Epoch: [7][ 120/5005]\tTime  0.212 ( 0.230)", 7),
        ("Epoch: [7]  [ 120/5005]  eta: 0:12:01  lr: 0.1", 7),
        ("Train Epoch: 3 [6400/60000 (11%)]\tLoss: 0.711", 3),
        ("[GPU2] Epoch 14 | Batchsize: 48 | Steps: 71", 14),
        // fairseq.
        ("epoch 003:    101 / 4110 loss=9.104, ppl=551.2", 3),
        (
            "2026-02-03 10:11:12 | INFO | train | epoch 003 | loss 8.2",
            3,
        ),
        ("begin training epoch 4", 4),
        ("end of epoch 4 (average epoch stats below)", 4),
        // Lightning, tqdm.
        (
            "Epoch 3:  45%|####5     | 9/20 [00:01<00:02,  5.1it/s, v_num=2]",
            3,
        ),
        (
            "Epoch 3/9:  45%|####5     | 9/20 [00:01<00:02,  5.1it/s]",
            3,
        ),
        (
            "Epoch 3/9  \u{2501}\u{2501}\u{2501}\u{2578} 9/20 0:00:01 \u{2022} 0:00:02 5.12it/s",
            3,
        ),
        ("train          Epoch   3:   12%|###| 71/640", 3),
        // mmengine, mmcv, Ignite, flair.
        (
            "02/03 10:11:12 - mmengine - INFO - Epoch(train)  [3][ 50/330]  lr: 1e-02",
            3,
        ),
        (
            "2026-02-03 10:11:12,113 - mmdet - INFO - Epoch [3][50/330]\tlr: 1e-02",
            3,
        ),
        (
            "Engine run resuming. Epoch[3] Complete. Time taken: 00:01:10",
            3,
        ),
        (
            "2026-02-03 10:11:12,113 epoch 3 - iter 71/710 - loss 2.04",
            3,
        ),
        ("INFO:root:Epoch 3", 3),
        ("10:11:12 INFO Epoch 3", 3),
        // Spinning Up.
        ("|           Epoch |              17 |", 17),
        // timm, Swin Transformer, torchtune.
        ("Train: 3 [ 100/1251 (  8%)]  Loss: 6.91 (6.93)", 3),
        ("INFO - Train: 3 [ 100/1251 (  8%)]  Loss: 6.91 (6.93)", 3),
        ("Train: [3/300][10/1251]\teta 0:05:10 lr 0.000010", 3),
        ("3|1204|Loss: 0.8114:  12%|#2        | 1204/9980", 3),
        // Logs of names and values.
        (r#"{"epoch": 3, "train_loss": 2.71, "test_acc1": 41.2}"#, 3),
        ("step=100 epoch=3 loss=0.231", 3),
        ("epoch is incremented. current_epoch: 0, epoch: 1", 1),
        ("=> loaded checkpoint 'a/b.pth' (epoch 90)", 90),
    ] {
        assert_eq!(said(line), Some(LineMeaning::Number(number)), "{line}");
    }
}

#[test]
fn shares_of_epochs_are_those_that_have_ended() {
    for (line, number) in [
        (
            "{'loss': 1.914, 'grad_norm': 3.25, 'learning_rate': 2.9e-05, 'epoch': 1.02}",
            1,
        ),
        ("{'loss': '1.914', 'grad_norm': '3.25', 'epoch': '0.71'}", 0),
        ("{'eval_loss': 1.31, 'eval_runtime': 20.1, 'epoch': 2.0}", 2),
        (
            "{'train_runtime': 911.2, 'train_loss': 1.7, 'epoch': 3.0}",
            3,
        ),
        ("Epoch:   0%|          | 0/3 [00:00<?, ?it/s]", 0),
        ("Epoch:  33%|###3      | 1/3 [01:10<02:20, 70.1s/it]", 1),
        (
            "Training Epochs:  67%|\u{2588}\u{2588}\u{258b} | 2/3 [02:20<01:10, 70.1s/it]",
            2,
        ),
    ] {
        assert_eq!(said(line), Some(LineMeaning::Ended(number)), "{line}");
    }
}

#[test]
fn what_only_looks_like_one_is_none() {
    for line in [
        "",
        "epoch",
        "Epoch",
        "epochs=10",
        "epochs: 10",
        "Epochs: 10",
        "num_epochs 3",
        "num_epochs: 3",
        "  Num Epochs = 3",
        "max_epoch: 40",
        "Max epoch: 40",
        "total epoch 40",
        "--epochs 5",
        "--epoch 5",
        "--epoch=5",
        "python train.py --epoch 5 --lr 1e-3",
        "python train.py +epoch=5 trainer.epoch=5",
        "Namespace(batch_size=32, epoch=10, loss='mse')",
        "TrainConfig(epoch=10, loss='mse')",
        "epoch=10",
        "epoch = 10",
        "    train(model, epoch=3)",
        "{'epoch': 10, 'lr': 0.1}",
        "'epoch': 3",
        "start_epoch: 3",
        "Resuming from epoch 3",
        "Resuming training from epoch 3",
        "LR decays at epoch 30",
        "warming up until epoch 5",
        "evaluating every epoch 2",
        "Saving checkpoint for epoch 12",
        "Best epoch 3",
        "best acc 81.3 in epoch 12",
        "saved out/epoch_3.pth",
        "saved out/epoch=3-step=40.ckpt",
        "epoch=3-step=40.ckpt",
        "epoch 3-last.ckpt",
        "logs/epoch 3/model.pt",
        "Epoch 3/model.pt",
        "epoch3.pth",
        "Epoch time 12.1",
        "epoch length: 100",
        "Epoch took 12 s",
        "seconds since the epoch 12",
        "epoch 1760000000",
        "epoch: 1760000000.25, loss 1",
        "epoch 3.1.2",
        "Epoch 3.2 was released",
        "Epoch(val) [50/100]  acc: 0.3",
        "Epoch(val)  [3][50/100]",
        "nepoch 3",
        "3epoch 4",
        "wandb:          epoch 9",
        "for epoch in range(3):",
        "print(f'Epoch {epoch} 3')",
        "Train: 3 files",
        "Train: 5000 samples [seed 3]",
        "Train: [3/300]",
        "pretrain_Train: 3 [ 1/2",
        "Train: ",
        "a|3|Loss: 0.2",
        "3|Loss: 0.2",
        "|Loss: 0.2",
        "loss: 1.2 'epoch': '1e+05'",
    ] {
        assert_eq!(said(line), None, "{line}");
    }
}

#[test]
fn a_table_is_read_by_its_head_and_its_row() {
    let head = "      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size";
    assert_eq!(said(head), Some(LineMeaning::Head));
    assert_eq!(
        said("     Epoch   gpu_mem       box       obj"),
        Some(LineMeaning::Head)
    );
    assert_eq!(said("epoch     train_loss  valid_loss"), None);
    for (line, number) in [
        (
            "       2/50      3.71G      1.108      0.911         31        640:  4%",
            Some(2),
        ),
        ("       0/2         0G      1.108", Some(0)),
        ("       2/50 images", None),
        ("       2/50      31", None),
        ("       2 3.7G", None),
        ("all       128       929     0.64", None),
        ("", None),
    ] {
        let said = row(line.as_bytes()).map(|(said, _)| said);
        assert_eq!(said, number.map(LineMeaning::Number), "{line}");
    }
}

#[test]
fn what_stands_before_the_words_is_told_apart() {
    for (line, before) in [
        ("[rank3]: Epoch 3", "[rank3]: "),
        ("Train Epoch: 3 [1/2]", "Train "),
        ("[default1]:Train: 3 [ 1/2 ( 50%)]", "[default1]:"),
        ("Epoch 3", ""),
    ] {
        let (_, at) = read(line.as_bytes()).unwrap();
        assert_eq!(&line[..at], before);
    }
}
