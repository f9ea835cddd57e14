"""A small language model under transformers' Trainer and its own argument parser, on made-up text."""
import dataclasses
import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments

TINY = bool(os.environ.get("OOMPH_TINY"))


class Text(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        ids = torch.arange(index, index + (16 if TINY else 512)) % 5000
        return {"input_ids": ids, "labels": ids}


@dataclasses.dataclass
class Model:
    model_name_or_path: str = "made up"


def main():
    model_args, args = HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
    layers, width = (1, 32) if TINY else (12, 768)
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=width, n_head=4, vocab_size=5000))
    Trainer(model=model, args=args, train_dataset=Text()).train(args.resume_from_checkpoint)


if __name__ == "__main__":
    main()
    if torch.cuda.is_available():
        print("PEAK", torch.cuda.max_memory_allocated())
