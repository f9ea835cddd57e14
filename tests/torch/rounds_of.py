"""Rounds of trainings that call several models, or one several times, or go backward several times: each a generator that
takes a batch, and yields behind each step. Plain SGD keeps no state, so that a step's peak is what its round needs.
"""
import copy
import random
import typing

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH = 256


def perceptron(given, made, layers=3):
    sizes = [given] + [WIDTH] * layers
    parts = [part for pair in zip(sizes, sizes[1:]) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(WIDTH, made))


def plain(*models):
    return torch.optim.SGD([each for model in models for each in model.parameters()], 0.01)


def adversaries(batch):
    generator, discriminator = perceptron(32, 128), perceptron(128, 1)
    criterion = nn.BCEWithLogitsLoss()
    of_generator, of_discriminator = plain(generator), plain(discriminator)
    while True:
        real = torch.randn(batch, 128)
        valid, fake = torch.ones(batch, 1), torch.zeros(batch, 1)
        of_generator.zero_grad()
        noise = torch.randn(batch, 32)
        made = generator(noise)
        of_made = criterion(discriminator(made), valid)
        of_made.backward()
        of_generator.step()
        of_discriminator.zero_grad()
        of_real = criterion(discriminator(real), valid)
        of_fake = criterion(discriminator(made.detach()), fake)
        loss = (of_real + of_fake) / 2
        loss.backward()
        of_discriminator.step()
        yield


class Sequences(nn.Module):
    """Its forward is called as a method, so what is seen are the calls of its parts."""

    def __init__(self):
        super().__init__()
        self.states, self.actions = nn.Linear(16, 128), nn.Linear(8, 128)
        self.norm, self.body, self.head = nn.LayerNorm(128), perceptron(128, 128), nn.Linear(128, 8)

    def forward(self, states, actions):
        one = self.states(states) + 1
        two = self.actions(actions) + 1
        joined = self.norm(torch.stack([one, two], dim=1))
        made = self.body(joined)
        return self.head(made[:, 0]), self.head(made[:, 1])


def a_forward_that_is_called_as_a_method(batch):
    model = Sequences()
    optimizer = plain(model)
    while True:
        states, actions = torch.randn(batch, 16), torch.randn(batch, 8)
        mask = torch.rand(batch) > 0.3
        _, said = model.forward(states, actions)
        loss = nn.functional.mse_loss(said[mask > 0], actions[mask > 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def penalty_of(model, real, made):
    share = torch.rand(real.size(0), 1)
    between = (share * real + (1 - share) * made).requires_grad_(True)
    scores = model(between)
    (slope,) = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True, retain_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


def with_a_penalty(batch):
    generator, critic = perceptron(32, 128), perceptron(128, 1)
    optimizer = plain(critic)
    while True:
        real = torch.randn(batch, 128)
        optimizer.zero_grad()
        noise = torch.randn(batch, 32)
        made = generator(noise).detach()
        of_real = critic(real)
        of_made = critic(made)
        penalty = penalty_of(critic, real, made)
        loss = of_made.mean() - of_real.mean() + 10 * penalty
        loss.backward()
        optimizer.step()
        yield


def several_views(batch):
    student = perceptron(128, 64)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = plain(student)
    while True:
        views = [torch.randn(batch, 128) for _ in range(4)]
        outputs = [student(each) for each in views]
        with torch.no_grad():
            wanted = [teacher(each) for each in views[:2]]
        loss = sum(-(b.softmax(-1) * a.log_softmax(-1)).sum(-1).mean() for a in outputs for b in wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def pairs(batch):
    model = perceptron(128, 64)
    optimizer = plain(model)
    while True:
        left, right, same = torch.randn(batch, 128), torch.randn(batch, 128), torch.randint(2, (batch,))
        one = model(left)
        other = model(right)
        far = F.pairwise_distance(one, other)
        loss = (same * far**2 + (1 - same) * F.relu(1 - far) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def slope_of_its_input(batch):
    model = perceptron(128, 1)
    optimizer = plain(model)
    while True:
        given = torch.randn(batch, 128).requires_grad_(True)
        scores = model(given)
        (slope,) = torch.autograd.grad(scores.sum(), given, create_graph=True)
        loss = F.softplus(-scores).mean() + slope.square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def in_parts(batch, count=4):
    model = perceptron(128, 10)
    optimizer = plain(model)
    while True:
        for _ in range(count):
            given, wanted = torch.randn(batch, 128), torch.randint(10, (batch,))
            loss = F.cross_entropy(model(given), wanted)
            (loss / count).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def in_one_part(batch):
    return in_parts(batch, 1)


def twice_over_a_batch(batch):
    model = perceptron(128, 10)
    optimizer = plain(model)
    while True:
        given, wanted = torch.randn(batch, 128), torch.randint(10, (batch,))
        first = F.cross_entropy(model(given), wanted)
        first.backward()
        optimizer.zero_grad()
        F.cross_entropy(model(given), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


class Agent:
    """No module itself."""

    def __init__(self):
        self.actor, self.critic = perceptron(16, 6), perceptron(16, 1)

    def act(self, seen):
        logits = self.actor(seen)
        return logits, self.critic(seen)


def an_agent(batch):
    agent = Agent()
    optimizer = plain(agent.actor, agent.critic)
    while True:
        seen, gains = torch.randn(batch, 16), torch.randn(batch)
        logits, worth = agent.act(seen)
        chances = logits.log_softmax(-1)
        loss = ((worth.flatten() - gains) ** 2).mean() - (chances[:, 0] * gains).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Samples(typing.NamedTuple):
    before: torch.Tensor
    after: torch.Tensor
    gains: torch.Tensor


def acts_before_it_learns(batch):
    values, goal = perceptron(16, 6), perceptron(16, 6)
    optimizer = plain(values)
    seen, memory, number = torch.randn(1, 16), [], 0
    while True:
        # With gradients, which nobody needs.
        acts = values(seen)
        acts = acts.argmax(1).cpu().numpy()
        memory.append(acts)
        seen, number = torch.randn(1, 16), number + 1
        if number % 4 == 0:
            data = Samples(torch.randn(batch, 16), torch.randn(batch, 16), torch.randn(batch))
            with torch.no_grad():
                best = goal(data.after).max(1).values
            chosen = values(data.before)[:, 0]
            loss = F.mse_loss(chosen, data.gains + 0.9 * best)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield


class SoftActor:
    """Trains a number beside its modules, in a backward of its own."""

    def __init__(self):
        self.actor, self.critic = perceptron(16, 6), perceptron(22, 1)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.optimizers = plain(self.critic), plain(self.actor), torch.optim.SGD([self.log_alpha], 0.01)

    def train(self, seen, acts, gains):
        of_critic, of_actor, of_alpha = self.optimizers
        loss = F.mse_loss(self.critic(torch.cat([seen, acts], 1)), gains)
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        chances = self.actor(seen).log_softmax(-1)
        worth = self.critic(torch.cat([seen, chances], 1))
        a_loss = (self.log_alpha.exp() * chances - worth).mean()
        of_actor.zero_grad()
        a_loss.backward()
        of_actor.step()
        alpha_loss = -(self.log_alpha * (chances + 1).detach()).mean()
        of_alpha.zero_grad()
        alpha_loss.backward()
        of_alpha.step()


def a_temperature(batch):
    agent = SoftActor()
    while True:
        agent.train(torch.randn(batch, 16), torch.randn(batch, 6), torch.randn(batch, 1))
        yield


class Experts(nn.Module):
    def __init__(self, width=64, count=4):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList([perceptron(width, width, 1) for _ in range(count)])

    def forward(self, x):
        flat = x.flatten(0, 1)
        chosen, out = self.gate(flat).argmax(-1), torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            at = (chosen == number).nonzero().flatten()
            out = out.index_add(0, at, expert(flat[at]))
        return out.view_as(x)


def experts_by_value(batch):
    model = Experts()
    optimizer = plain(model)
    while True:
        given = torch.randn(batch, 8, 64)
        loss = model(given).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = perceptron(64, 64)

    def forward(self, x, mask):
        x = self.inner(x)
        if not mask.all():
            x = x.masked_fill(mask[..., None] == 0, 0)
        return x[:, : int(mask.sum(1).max())]


def a_mask_that_is_asked(batch):
    model = Masked()
    optimizer = plain(model)
    while True:
        given, mask = torch.randn(batch, 8, 64), torch.ones(batch, 8, dtype=torch.long)
        mask[:, 6:] = 0
        loss = model(given, mask).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Remembers(nn.Module):
    """Attends to what it returned in the calls before, as far as that goes; there is nothing at first."""

    def __init__(self, width=64, kept=64):
        super().__init__()
        self.given, self.query, self.keys = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.kept = kept

    def forward(self, x, *memories):
        x = self.given(x)
        both = torch.cat([each for each in (*memories, x) if each is not None], 1)
        keys, values = self.keys(both).chunk(2, -1)
        weights = (self.query(x) @ keys.transpose(1, 2)).softmax(-1)
        return (weights @ values).square().mean(), both[:, -self.kept :].detach()


def a_memory_that_begins_empty(batch):
    model = Remembers()
    optimizer = plain(model)
    memories = ()
    while True:
        given = torch.randn(batch, 24, 64)
        optimizer.zero_grad()
        returned = model(given, *memories)
        loss, memories = returned[0], returned[1:]
        loss.backward()
        optimizer.step()
        yield


def a_hidden_state(batch):
    model = Remembers(kept=24)
    optimizer = plain(model)
    hidden = None
    while True:
        given = torch.randn(batch, 24, 64)
        loss, made = model(given, hidden)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hidden = made.detach()
        yield


class Segment(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.inner, self.out, self.start = perceptron(width, width), nn.Linear(width, 200), nn.Parameter(torch.zeros(4, width))

    def forward(self, x, memory=None):
        memory = self.start.expand(len(x), -1, -1) if memory is None else memory
        x = self.inner(torch.cat([memory, x], 1))
        return self.out(x[:, 4:]), x[:, -4:]


def a_memory_over_segments(batch):
    model = Segment()
    optimizer = plain(model)
    while True:
        given = torch.randn(batch, 64, 64)
        optimizer.zero_grad()
        memory, loss = None, 0.0
        for segment in given.chunk(4, dim=1):
            logits, memory = model(segment, memory)
            loss = loss + logits.logsumexp(-1).mean()
        loss.backward()
        optimizer.step()
        yield


def frame_by_frame(model, optimizer, given, criterion, forcing):
    """One backward for all frames; each call is given what was made of the frame before, or the frame itself."""
    optimizer.zero_grad()
    loss, frames = 0, given.size(1)
    for at in range(frames - 1):
        made = model(given[:, at])
        loss += criterion(made, given[:, at + 1])
    forced = True if random.random() < forcing else False
    x = given[:, -1]
    for at in range(frames):
        made = model(x)
        loss += criterion(made, given[:, at])
        x = given[:, at] if forced else made
    loss.backward()
    optimizer.step()
    return loss.item() / frames


def a_loop_over_frames(batch):
    """How often the truth is given in place of what was made is one of NumPy's numbers."""
    model, criterion = perceptron(128, 128), nn.MSELoss()
    optimizer = plain(model)
    for epoch in range(100):
        forcing = numpy.maximum(0, 1 - epoch * 0.003)
        frame_by_frame(model, optimizer, torch.randn(batch, 6, 128), criterion, forcing)
        yield


def with_sampling_behind_it(batch, every=100):
    model = perceptron(128, 128)
    optimizer = plain(model)
    for number in range(3):
        for _ in range(2):
            given = torch.randn(batch, 128)
            loss = model(given).square().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % every == 0:
            model.eval()
            with torch.no_grad():
                model(torch.randn(2, 128))
            model.train()
        yield


def with_a_test_behind_its_function(batch, every=100):
    model = perceptron(128, 128)
    optimizer = plain(model)

    def train_step(given):
        optimizer.zero_grad()
        loss = model(given).square().mean()
        loss.backward()
        optimizer.step()

    for number in range(3):
        train_step(torch.randn(batch, 128))
        if number % every == 0:
            run_test(model)
        yield


def run_test(model):
    with torch.no_grad():
        model(torch.randn(2, 128))


def with_a_style(batch):
    """What is compared with is made for each sample before the steps, and its variables hold it."""
    model, features = perceptron(128, 128), perceptron(128, 256).requires_grad_(False)
    optimizer = plain(model)
    style = torch.randn(1, 128).repeat(batch, 1)
    of_style = [features[:at](style) for at in (2, 4, 6)]
    wanted = [each.mean() for each in of_style]
    for _ in range(3):
        given = torch.randn(batch, 128)
        optimizer.zero_grad()
        made = features(model(given))
        loss = (made - wanted[-1]).square().mean()
        loss.backward()
        optimizer.step()
        yield


def a_graph_that_is_kept(batch):
    """Two backwards through one graph, which the variables of the round keep until they are bound again."""
    model, judge = perceptron(128, 128), perceptron(128, 2)
    of_model, of_judge = plain(model), plain(judge)
    while True:
        given = torch.randn(batch, 128)
        made = model(given)
        scores = judge(made)
        loss = (made - given).square().mean() + (scores[:, :1] - scores[:, 1:]).mean()
        of_model.zero_grad()
        loss.backward(retain_graph=True)
        of_model.step()
        of_judging = F.cross_entropy(scores, torch.zeros(batch, dtype=torch.long))
        of_judge.zero_grad()
        of_judging.backward(inputs=list(judge.parameters()), retain_graph=True)
        of_judge.step()
        yield


def a_graph_that_ends_with_its_function(batch):
    model = perceptron(128, 128)
    optimizer = plain(model)

    def step(given):
        made = model(given)
        loss = (made - given).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()

    while True:
        step(torch.randn(batch, 128))
        yield


# What the model returns it is given in the next call.
CARRIED = (a_memory_that_begins_empty, a_hidden_state, a_memory_over_segments)
ROUNDS = (
    acts_before_it_learns,
    adversaries, with_a_penalty, several_views, pairs, slope_of_its_input, twice_over_a_batch, an_agent, a_temperature,
    experts_by_value, a_mask_that_is_asked, a_loop_over_frames,
)
