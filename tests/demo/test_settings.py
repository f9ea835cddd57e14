"""PYTORCH_CUDA_ALLOC_CONF: what is accepted, and the words of each refusal at the first CUDA call."""
import unittest

from support import MIB, python

from torch.simulation.settings import Settings


class Accepted(unittest.TestCase):
    def test_keys_lists_spaces_and_trailing_commas(self):
        settings = Settings(
            "expandable_segments:True, max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8],"
            "garbage_collection_threshold:0.8,backend:native,"
        )
        self.assertTrue(settings.expandable_segments)
        self.assertEqual(settings.max_split_size, 128 * MIB)
        self.assertEqual(settings.garbage_collection_threshold, 0.8)

    def test_the_first_name_that_is_set_wins(self):
        both = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:30", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
        self.assertFalse(Settings.of_environment(both).expandable_segments)
        del both["PYTORCH_CUDA_ALLOC_CONF"]
        self.assertTrue(Settings.of_environment(both).expandable_segments)


class Refused(unittest.TestCase):
    def test_each_refusal_says_what_torch_says(self):
        cases = (
            ("foo:1", "Unrecognized key 'foo' in CUDA allocator config."),
            ("foo", "Unrecognized key 'foo' in CUDA allocator config."),
            ("expandable_segments:true", "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"),
            ("expandable_segments", "Expected ':' at index 1 in ConfigTokenizer but got ''"),
            ("expandable_segments:", "Index out of bounds in ConfigTokenizer"),
            ("max_split_size_mb:19", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
            ("max_split_size_mb:many", "stoull"),
            ("garbage_collection_threshold:1.0", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
            ("per_process_memory_fraction:2", "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"),
            ("backend:other", "Unknown allocator backend, options are native and cudaMallocAsync"),
        )
        for conf, words in cases:
            with self.assertRaises(ValueError, msg=conf) as raised:
                Settings(conf)
            self.assertEqual(str(raised.exception), words)

    def test_import_works_and_the_first_cuda_call_does_not(self):
        status, output, errors = python(
            "import torch; print('imported'); torch.zeros(1, device='cuda')", PYTORCH_CUDA_ALLOC_CONF="foo:1"
        )
        self.assertEqual((status, output), (1, "imported\n"))
        self.assertTrue(errors.endswith("ValueError: Unrecognized key 'foo' in CUDA allocator config.\n"), errors)

    def test_a_card_size_that_is_no_number_is_named(self):
        status, _, errors = python("import torch; torch.cuda.init()", OOMPH_SIMULATED_CARD_GIB="large")
        self.assertEqual(status, 1)
        self.assertIn("OOMPH_SIMULATED_CARD_GIB='large' is not a number", errors)


if __name__ == "__main__":
    unittest.main()
