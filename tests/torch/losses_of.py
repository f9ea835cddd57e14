"""Ways in which programs come from a model's output to what they go backward from, each a training's function. `model` is
out of memory in its forward at `BATCH` samples.
"""
import copy
import types

import torch
import torch.nn as nn
import torch.nn.functional as F
from on_cpu import out_of_memory

BATCH, WIDTH, CLASSES = 6, 8, 5
WEIGHTS = torch.ones(CLASSES)


class Model(nn.Module):
    def __init__(self, outputs=1):
        super().__init__()
        self.body, self.head, self.outputs = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, CLASSES), outputs
        self.runs_out = True

    def forward(self, x, y=None):
        # Only a real one runs out.
        if type(x) is torch.Tensor and self.runs_out:
            out_of_memory()
        logits = self.head(torch.relu(self.body(x)))
        if self.outputs == "log":
            return F.log_softmax(logits, -1)
        if self.outputs == "both":
            return logits, F.cross_entropy(logits, y)
        if self.outputs == "dict":
            return {"logits": logits, "loss": F.cross_entropy(logits, y)}
        return logits if self.outputs == 1 else (logits, logits * 2)


class Trainer:
    def __init__(self, model):
        self.model, self.criterion, self.scale, self.history = model, nn.CrossEntropyLoss(weight=WEIGHTS), 0.5, []

    def loss(self, outputs, y):
        return self.scale * self.criterion(outputs, y)

    def step(self, x, y):
        outputs = self.model(x)
        loss = self.loss(outputs, y)
        self.history.append(1)
        loss.backward()

    def compute(self, x, y):
        return self.criterion(self.model(x), y)

    def steps(self, x, y):
        for _ in range(1):
            value = self.compute(x, y) / 2
            value.backward()


class Focal(nn.Module):
    def __init__(self):
        super().__init__()
        self.power = 2

    def forward(self, outputs, y):
        entropy = F.cross_entropy(outputs, y, reduction="none")
        return ((1 - torch.exp(-entropy)) ** self.power * entropy).mean()


def given():
    return torch.randn(BATCH, WIDTH), torch.randint(CLASSES, (BATCH,))


def log_likelihood():
    model, criterion = Model("log"), nn.NLLLoss()
    x, y = given()
    output = model(x)
    loss = criterion(output, y)
    loss.backward()


def up_to_the_longest():
    """Targets are padded to a fixed length, and cut where the longest sample of the batch ends."""
    model, criterion = Model(), nn.CrossEntropyLoss()
    lengths = torch.tensor([4, 2, 3, 1, 4, 2])
    x, y = torch.randn(BATCH, 4, WIDTH), torch.randint(CLASSES, (BATCH, 7))
    logits = model(x)
    y = y[:, : torch.max(lengths).item()].contiguous().view(-1)
    loss = criterion(logits.view(-1, CLASSES), y)
    loss.backward()


def squared():
    model = Model()
    x, _ = given()
    target = torch.randn(BATCH, CLASSES)
    pred = model(x)
    F.mse_loss(pred, target).backward()


def with_a_gradient_that_is_given():
    model = Model()
    x, _ = given()
    weights = torch.ones(BATCH)
    for _ in range(1):
        score = model(x).mean(1)
        score.backward(weights)


def with_one_for_a_single_number():
    model, one = Model(), torch.ones(1)
    x, _ = given()
    for _ in range(1):
        score = model(x).mean().view(1)
        score.backward(one)


def in_one_line():
    model, criterion = Model(), nn.CrossEntropyLoss()
    x, y = given()
    criterion(model(x), y).backward()


def by_a_function_of_its_own():
    loss_of = lambda outputs, y: F.nll_loss(F.log_softmax(outputs, 1), y)  # noqa: E731
    model = Model()
    x, y = given()
    for x, y in [(x, y)]:
        out = model(x)
        loss = loss_of(out, y)
        loss.backward()


def by_a_module_of_its_own():
    model, criterion = Model(), Focal()
    batch = {"x": given()[0], "y": given()[1]}
    out = model(batch["x"])
    loss = criterion(out, batch["y"])
    loss.backward()


def by_a_method():
    Trainer(Model()).step(*given())


def by_what_a_method_returns():
    Trainer(Model()).steps(*given())


def a_sum():
    model, binary = Model(2), nn.BCEWithLogitsLoss()
    x, y = given()
    batch_size = len(x)
    first, second = model(x)
    loss = F.cross_entropy(first, y)
    loss = loss + 0.1 * binary(second, torch.zeros(batch_size, CLASSES))
    total = loss / 4
    total.backward()


def under_autocast():
    model, scaler = Model(), torch.amp.GradScaler("cpu", enabled=False)
    x, y = given()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x)
        loss = F.cross_entropy(out, y)
    scaler.scale(loss).backward()


def flat_targets():
    model = Model()
    x, y = torch.randn(BATCH, 7, WIDTH), torch.randint(CLASSES, (BATCH * 7,))
    out = model(x)
    loss = F.cross_entropy(out.view(-1, CLASSES), y)
    loss.backward()


def kept_until_bound_again():
    model = Model("both")
    x, y = given()
    for _ in range(3):
        logits, loss = model(x, y)
        loss.backward()


def let_go():
    model = Model("both")
    x, y = given()
    for _ in range(3):
        loss = model(x, y)[1]
        loss.backward()


def of_a_dict():
    model = Model("dict")
    x, y = given()
    for _ in range(3):
        outputs = model(x, y)
        outputs["loss"].backward()


def with_a_figure_to_print():
    model, losses = Model(), []
    x, y = given()
    loss, figure = and_its_figure(model(x), y, losses)
    loss.backward()
    print(figure)


def and_its_figure(outputs, y, losses):
    losses = []
    loss = F.cross_entropy(outputs, y)
    losses.append(loss.item())
    return loss, (outputs.argmax(1) == y).sum().item()


def appended():
    model, outputs, figures = Model("both"), [], []
    x, y = given()
    for _ in range(3):
        logits, loss = model(x, y)
        outputs.append(logits.detach())
        figures.append(loss.item())
        loss.backward()
        del logits


def gathered():
    """A list of what several calls return, and a dict of the losses that are made of it."""
    model, (x, y), criterion = Model(), given(), nn.CrossEntropyLoss()
    for _ in range(1):
        logits = [model(x)]
        for part in (x, x):
            logits.append(model(part))
        both = torch.cat(logits[1:])
        losses = {}
        losses["first"] = criterion(logits[0], y)
        losses["others"] = criterion(both, torch.cat([y, y]))
        loss = sum(losses.values())
        loss.div_(2)
        loss.backward()


def appended_behind():
    model, outputs = Model("both"), []
    x, y = given()
    for step in range(3):
        logits, loss = model(x, y)
        loss.backward()
        loss = loss.item()
        scaled = logits * 2
        if step % 10 == 0:
            outputs.append(scaled.softmax(-1))
        del scaled


def appended_to_a_list_of_its_own():
    model = Model("both")
    x, y = given()
    for _ in range(3):
        outputs = []
        logits, loss = model(x, y)
        outputs.append((logits.clone(), y))
        loss.backward()


def deleted():
    model = Model("both")
    x, y = given()
    for _ in range(3):
        logits, loss = model(x, y)
        loss.backward()
        loss = loss.item()
        del logits


def averaged():
    model, mean = Model("both"), None
    x, y = given()
    for _ in range(3):
        logits, loss = model(x, y)
        loss.backward()
        if mean is None:
            mean = copy.deepcopy(model)


def carried_over():
    model = Model(2)
    x, y = given()
    state = torch.zeros(BATCH, CLASSES)
    for _ in range(3):
        state = state.detach()
        out, state = model(x)
        loss = F.cross_entropy(out + state, y)
        loss.backward()
        out = None


class Collects:
    """Keeps its outputs in a list, and the latest as an attribute."""

    def __init__(self, model):
        self.model, self.outputs, self.latest = model, [], None

    def loss(self, x, y):
        logits, loss = self.model(x, y)
        self.latest = logits
        self.outputs.append(logits * 2)
        return loss

    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()


def collected():
    Collects(Model("both")).step(*given())


def returned():
    x, y = given()
    return and_returned(Model("both"), x, y)


def and_returned(model, x, y):
    logits, loss = model(x, y)
    loss.backward()
    return loss.item(), logits


def cleared_first():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = given()
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def cleared_between():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = given()
    for _ in range(3):
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cleared_first_and_between():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        attacked(model, optimizer, *given()).backward()
        optimizer.step()


def cleared_once_and_between():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.zero_grad()
    for _ in range(3):
        attacked(model, optimizer, *given()).backward()
        optimizer.step()


def attacked(model, optimizer, x, y):
    """Its first call is of an attack, whose gradients are let go of."""
    worse = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    return F.cross_entropy(model(x), y) + worse.detach()


def set_to_zero():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = given()
    for step in range(3):
        out = model(x)
        F.cross_entropy(out, y).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)


class Pix:
    """Keeps what it makes as attributes."""

    def __init__(self, model):
        self.model, self.loss, self.criterion = model, None, nn.CrossEntropyLoss()

    def step(self, x, y):
        self.made = self.model(x)
        self.loss = self.criterion(self.made, y)
        self.loss.backward()


def by_an_attribute():
    Pix(Model()).step(*given())


def by_one_of_an_earlier_step():
    """Its lines lead to a real tensor, with a graph of its own."""
    earlier, model = Model(), Model()
    earlier.runs_out = False
    x, y = given()
    EARLIER[:] = [earlier, F.cross_entropy(earlier(x), y)]
    kept = types.SimpleNamespace(loss=EARLIER[1])
    kept.out = model(x)
    kept.loss.backward()


EARLIER = []


def in_a_branch_of_its_backward():
    model, scaler, losses = Model("log"), None, []
    for _ in range(2):
        x, y = given()
        output = model(x)
        if scaler is not None:
            loss = output.mean()
        else:
            with torch.enable_grad():
                loss = F.nll_loss(output, y)
                loss.backward()
        losses.append(loss.item())


def evaluated_first():
    """Memory runs out before the first step, where nothing goes backward."""
    evaluate(Model("log"))


@torch.no_grad()
def evaluate(model):
    total_loss = 0.0
    for _ in range(2):
        x, y = given()
        output = model(x)
        loss = F.nll_loss(output, y)
        total_loss = total_loss + loss.item()
    return total_loss


class Result:
    """What a framework makes of what a step returned."""

    def __init__(self, value):
        HISTORY.append(value)
        self.value = value


def by_a_framework():
    """Its lines lead to an object, whose backward is somewhere else."""
    model = Model("log")

    def training_step(x, y):
        output = model(x)
        return F.nll_loss(output, y)

    result = Result(training_step(*given()))
    go_back(result)


def go_back(result):
    result.value.backward()


class Keeping(Model):
    """Its forward leaves the loss in an attribute, and part of one in another."""

    def forward(self, x, y=None):
        logits = super().forward(x)
        self.aux_loss = self.head.weight.square().mean()
        self.last_loss = F.cross_entropy(logits, y)
        return logits


def kept_by_its_model():
    model = Keeping()
    model(*given())


def of_which_it_keeps_a_part():
    class Other(Keeping):
        def forward(self, x, y=None):
            logits = super().forward(x, y)
            del self.last_loss
            return logits

    Other()(*given())


def unknown():
    model = Model()
    x, y = given()
    print("nothing", model(x), y)


def changes_something():
    model, history = Model(), HISTORY
    x, y = given()
    out = model(x)
    loss = F.cross_entropy(out, y) + len(history)
    loss = remember(loss)
    loss.backward()


HISTORY = []


def remember(loss):
    HISTORY.append(1)
    return loss
