"""Trainings whose forward changes what is no part of the model: losses that a module puts into a list, features that a hook
keeps, figures in an object. Each is a generator that takes a batch, and yields behind each step. `state()` has what the
program keeps so.
"""
import collections

import torch
import torch.nn as nn
import torch.nn.functional as F
from rounds_of import WIDTH, perceptron, plain


class Manager:
    """Collects losses over the layers of a model."""

    def __init__(self):
        self.losses, self.calls, self.sizes = [], 0, []

    def add(self, loss):
        self.losses.append(loss)
        self.calls += 1

    def total(self):
        return sum(self.losses)

    def reset(self):
        self.losses = []


MANAGER = Manager()
LOSSES, FEATURES, DEEP = [], {}, {"of": [{"losses": []}]}
COUNT = 0
# A tensor of the program's, in the globals of which a rehearsal has copies.
LATEST = None
RECENT, NORMS = collections.deque(maxlen=4), collections.defaultdict(list)


def note(loss):
    """A function of the program's own that finds the list by a global."""
    LOSSES.append(loss)


def penalty(x):
    return x.float().pow(2).mean()


class Layer(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.inner, self.keep = nn.Linear(WIDTH, WIDTH), keep

    def forward(self, x):
        x = torch.relu(self.inner(x))
        self.keep(x)
        return x


class ByManager(Layer):
    def forward(self, x):
        x = torch.relu(self.inner(x))
        MANAGER.add(penalty(x))
        return x


class ByGlobal(Layer):
    def forward(self, x):
        x = torch.relu(self.inner(x))
        LOSSES.append(penalty(x))
        DEEP["of"][0]["losses"].append(x.shape)
        return x


class ByFunction(Layer):
    def forward(self, x):
        global COUNT
        COUNT += 1
        x = torch.relu(self.inner(x))
        note(penalty(x))
        RECENT.append(len(x))
        NORMS["relu"].append(x.shape)
        return x


class WithLoss(nn.Module):
    """Its forward makes the loss, the layers' own among it."""

    def __init__(self, layers):
        super().__init__()
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(WIDTH, 10)

    def forward(self, x, y):
        loss = F.cross_entropy(self.head(self.layers(x)), y)
        loss = loss + 0.1 * MANAGER.total()
        MANAGER.reset()
        return loss


def given(batch):
    return torch.randn(batch, WIDTH), torch.randint(10, (batch,))


def trained(model, batch, lose):
    optimizer = plain(model)
    while True:
        x, y = given(batch)
        optimizer.zero_grad()
        loss = lose(model, x, y)
        loss.backward()
        optimizer.step()
        yield


def by_a_manager(batch):
    model = WithLoss([ByManager(None) for _ in range(4)])
    return trained(model, batch, lambda model, x, y: model(x, y))


def by_a_list(batch):
    model = nn.Sequential(*[ByGlobal(None) for _ in range(4)], nn.Linear(WIDTH, 10))
    optimizer = plain(model)
    while True:
        x, y = given(batch)
        optimizer.zero_grad()
        LOSSES.clear()
        loss = F.cross_entropy(model(x), y) + 0.1 * sum(LOSSES)
        loss.backward()
        optimizer.step()
        yield


def by_a_function(batch):
    model = nn.Sequential(*[ByFunction(None) for _ in range(4)], nn.Linear(WIDTH, 10))
    optimizer = plain(model)
    while True:
        x, y = given(batch)
        optimizer.zero_grad()
        LOSSES.clear()
        output = model(x)
        loss = F.cross_entropy(output, y) + 0.1 * sum(LOSSES)
        loss.backward()
        optimizer.step()
        yield


def by_a_method_of_another_object(batch):
    """The layers are given a method of what collects."""
    manager = Manager()
    model = nn.Sequential(*[Layer(lambda x: manager.add(penalty(x))) for _ in range(4)], nn.Linear(WIDTH, 10))
    optimizer = plain(model)
    while True:
        x, y = given(batch)
        optimizer.zero_grad()
        manager.reset()
        output = model(x)
        loss = F.cross_entropy(output, y) + 0.1 * manager.total()
        loss.backward()
        optimizer.step()
        yield


def by_hooks(batch):
    """Features of two layers are compared with those of another model."""
    model, other = perceptron(WIDTH, 10), perceptron(WIDTH, 10)

    def keep(name):
        def hook(module, inputs, output):
            FEATURES[name] = output

        return hook

    for name, each in (("student", model), ("teacher", other)):
        each[2].register_forward_hook(keep(name))
    optimizer = plain(model)
    while True:
        x, y = given(batch)
        optimizer.zero_grad()
        output = model(x)
        with torch.no_grad():
            other(x)
        far = penalty(FEATURES["student"] - FEATURES["teacher"])
        loss = F.cross_entropy(output, y) + far
        loss.backward()
        optimizer.step()
        yield


class Extractor:
    def __init__(self, model):
        self.features = []
        for each in model:
            if isinstance(each, nn.ReLU):
                each.register_forward_hook(self.keep)

    def keep(self, module, inputs, output):
        self.features.append(output)

    def clear(self):
        self.features = []


def by_hooks_of_an_object(batch):
    model = perceptron(WIDTH, 10)
    extractor = Extractor(model)
    optimizer = plain(model)
    while True:
        x, y = given(batch)
        optimizer.zero_grad()
        extractor.clear()
        output = model(x)
        loss = F.cross_entropy(output, y) + sum(penalty(each) for each in extractor.features)
        loss.backward()
        optimizer.step()
        yield


class Counting(nn.Module):
    """Its layers change nothing but what they return."""

    def __init__(self):
        super().__init__()
        self.layers = perceptron(WIDTH, 10)

    def forward(self, x):
        MANAGER.sizes.append(len(x))
        return self.layers(x)


def by_its_own_forward(batch):
    return trained(Counting(), batch, lambda model, x, y: F.cross_entropy(model(x), y))


OUTSIDE = [
    by_its_own_forward, by_a_manager, by_a_list, by_a_function, by_a_method_of_another_object, by_hooks, by_hooks_of_an_object,
]


def state():
    """Everything that the program keeps, by what it is."""
    kept = [MANAGER, MANAGER.losses, MANAGER.sizes, LOSSES, FEATURES, DEEP, DEEP["of"][0]["losses"], RECENT, NORMS]
    items = [
        [id(each) for each in (one.values() if isinstance(one, dict) else one if not isinstance(one, Manager) else ())]
        for one in kept
    ]
    methods = [[name for name in vars(each) if name[:1] != "_"] for each in (ByManager, ByGlobal, Manager)]
    return [id(each) for each in kept], items, MANAGER.calls, COUNT, methods, note.__globals__ is globals()
