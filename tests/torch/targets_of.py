"""Trainings whose step begins with a call that has no gradients: a target network's, a teacher's, a generator's. Each is a
generator that takes a batch, and yields behind each step; `here` says what was begun last.
"""
import copy

import torch
import torch.nn.functional as F
from rounds_of import perceptron, plain

# "target" as long as nothing with gradients has been called in a step.
here = ["target"]


class DoubleQ:
    def __init__(self):
        self.net = perceptron(128, 8)
        self.target = copy.deepcopy(self.net)
        for each in self.target.parameters():
            each.requires_grad = False
        self.optimizer = plain(self.net)

    def train(self, s, a, r, s_next, done):
        with torch.no_grad():
            best = self.net(s_next).argmax(dim=1).unsqueeze(-1)
            most = self.target(s_next).gather(1, best)
            wanted = r + (~done) * 0.99 * most
        here[0] = "online"
        current = self.net(s).gather(1, a)
        loss = F.mse_loss(current, wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def a_double_q(batch):
    agent = DoubleQ()
    while True:
        here[0] = "target"
        s, s_next = torch.randn(batch, 128), torch.randn(batch, 128)
        a, r = torch.zeros(batch, 1, dtype=torch.long), torch.zeros(batch, 1)
        agent.train(s, a, r, s_next, torch.zeros(batch, 1, dtype=torch.bool))
        yield


class Momentum:
    """BYOL's kind: the teacher is called first, by a function of its own that turns gradients off."""

    def __init__(self):
        self.student, self.predictor = perceptron(128, 64), perceptron(64, 64, 1)
        self.teacher = copy.deepcopy(self.student).eval()

    @torch.no_grad()
    def wanted(self, one, other):
        return self.teacher(one), self.teacher(other)

    def loss(self, one, other):
        first, second = self.wanted(one, other)
        here[0] = "online"
        of_one = self.predictor(self.student(one))
        of_other = self.predictor(self.student(other))
        return 2 - F.cosine_similarity(of_one, second).mean() - F.cosine_similarity(of_other, first).mean()


def a_momentum_encoder(batch):
    learner = Momentum()
    optimizer = plain(learner.student, learner.predictor)
    for _ in range(8):
        here[0] = "target"
        one, other = torch.randn(batch, 128), torch.randn(batch, 128)
        loss = learner.loss(one, other)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def a_teacher(batch, classes=512):
    """Distillation: the teacher is wider than the student."""
    teacher, student = perceptron(128, classes, 8).eval(), perceptron(128, classes, 1)
    optimizer = plain(student)
    for _ in range(8):
        here[0] = "target"
        images, labels = torch.randn(batch, 128), torch.zeros(batch, dtype=torch.long)
        with torch.inference_mode():
            wanted = teacher(images)
        here[0] = "online"
        logits = student(images)
        soft = F.kl_div(F.log_softmax(logits / 4, dim=1), F.softmax(wanted / 4, dim=1), reduction="batchmean")
        loss = 0.9 * soft + 0.1 * F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def a_generator_first(batch):
    """The discriminator's step of a GAN."""
    generator, discriminator = perceptron(32, 128, 6), perceptron(128, 1)
    optimizer = plain(discriminator)
    while True:
        here[0] = "target"
        real = torch.randn(batch, 128)
        noise = torch.randn(batch, 32)
        with torch.no_grad():
            made = generator(noise)
        here[0] = "online"
        loss = F.softplus(discriminator(made)).mean() + F.softplus(-discriminator(real)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def an_evaluation_before_the_training(batch):
    """A sanity check of the validation in the function that trains: no part of a step."""
    model = perceptron(128, 8)
    optimizer = plain(model)
    here[0] = "target"
    given = torch.randn(batch, 128)
    with torch.no_grad():
        F.mse_loss(model(given), torch.zeros(batch, 8))
    here[0] = "online"
    for _ in range(8):
        loss = model(torch.randn(batch, 128)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


class KeepsItsLoss(torch.nn.Module):
    """A language model whose loss is in an attribute; its logits are what takes most."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(512, 16)
        self.head = torch.nn.Linear(16, 512)
        self.last_loss = None

    def forward(self, words):
        logits = self.head(self.embedding(words))
        self.last_loss = F.cross_entropy(logits.flatten(0, 1), words.flatten())
        return logits


@torch.no_grad()
def estimate(model, words):
    losses = torch.zeros(3)
    for k in range(3):
        logits = model(words)
        loss = model.last_loss
        losses[k] = 1
    del logits, loss
    return losses.mean()


def an_evaluation_that_binds_its_logits(batch):
    model = KeepsItsLoss()
    optimizer = plain(model)
    words = torch.zeros(batch, 32, dtype=torch.long)
    here[0] = "target"
    estimate(model, words)
    here[0] = "online"
    for _ in range(8):
        logits = model(words)
        loss = model.last_loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield logits


TARGETS = (a_double_q, a_momentum_encoder, a_teacher, a_generator_first)
