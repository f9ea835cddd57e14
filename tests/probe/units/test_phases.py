"""What a function's name says of the phase: the same rules as those for a printed traceback."""
import unittest

import support  # noqa: F401
from _oomph_probe.common import phases


class Evaluates(unittest.TestCase):
    def test_by_name(self):
        for name in (
            "evaluate", "validation_step", "estimate_loss", "log_validation", "perform_actual_validation", "compute_validation_map",
            "single_gpu_test", "inference_on_dataset", "evaluate_coco", "on_validation_epoch_end", "_do_eval", "test_net",
        ):
            self.assertTrue(phases.evaluates(name), name)
        for name in ("train_step", "compute_loss", "compute_prediction", "validate_arguments", "log", "train_and_evaluate"):
            self.assertFalse(phases.evaluates(name), name)


if __name__ == "__main__":
    unittest.main()
