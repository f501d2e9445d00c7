# SPDX-License-Identifier: Apache-2.0
"""Weights that the library has exported, loaded by the package transformers:
the logits are those of the weights it was loaded from. Skips without it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import torch
    import transformers
    from safetensors.torch import load_file
    MISSING = ""
except ImportError as error:
    MISSING = f"needs torch, transformers and safetensors: {error}"
try:
    import peft
    NO_PEFT = MISSING
except ImportError as error:
    NO_PEFT = f"needs peft: {error}"

BINARY = pathlib.Path(os.environ["MTF_BUILD"]) / "bin" / "train_weights_test"
FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "models"


def logits_of(model, values):
    """As tests/fixtures/models.py computes them."""
    if "images" in values:
        images = values["images"].permute(0, 3, 1, 2)
        return model(pixel_values=images).logits
    tokens = values["tokens"].long()
    if "token_types" in values:
        return model(input_ids=tokens, attention_mask=values["mask"].long(),
                     token_type_ids=values["token_types"].long()
                     ).prediction_logits
    if model.config.is_encoder_decoder:
        shifted = torch.nn.functional.pad(values["targets"], (1, 0))[:, :-1]
        return model(input_ids=tokens, decoder_input_ids=shifted.long()).logits
    return model(input_ids=tokens).logits


@unittest.skipIf(MISSING, MISSING)
class ExportedModels(unittest.TestCase):
    def test_the_reference_computes_the_same_logits(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [BINARY, "--gtest_filter=*AreWrittenForTheReference*"],
                check=True, capture_output=True, timeout=100,
                env=dict(os.environ, MTF_EXPORT_FOLDER=folder))
            exported = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual([path.name for path in exported],
                             sorted(path.name for path in FIXTURES.iterdir()))
            for path in exported:
                with self.subTest(path.name):
                    self.compare(path)

    def compare(self, path):
        values = load_file(FIXTURES / path.name / "expected.safetensors")
        config = transformers.AutoConfig.from_pretrained(path)
        kind = getattr(transformers, config.architectures[0])
        model, report = kind.from_pretrained(path, output_loading_info=True)
        ties = "lm_head.weight", "cls.predictions.decoder"
        missing = [name for name in report["missing_keys"]
                   if not name.startswith(ties)
                   and not name.endswith("num_batches_tracked")]
        self.assertEqual(missing, [])
        self.assertEqual(list(report["unexpected_keys"]), [])
        model.eval()
        with torch.no_grad():
            difference = (logits_of(model, values) - values["logits"]).abs()
        self.assertLess(difference.max().item(), 1e-5)


@unittest.skipIf(NO_PEFT, NO_PEFT)
class ExportedAdapters(unittest.TestCase):
    def test_peft_computes_the_logits_of_the_merged_model(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [BINARY, "--gtest_filter=*AreWrittenForPeft*"],
                check=True, capture_output=True, timeout=100,
                env=dict(os.environ, MTF_ADAPTERS_FOLDER=folder))
            exported = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual([path.name for path in exported],
                             ["gpt2", "llama3", "mixtral", "t5"])
            for path in exported:
                with self.subTest(path.name):
                    self.compare(path)

    def compare(self, path):
        fixture = FIXTURES / path.name
        values = load_file(fixture / "expected.safetensors")
        config = transformers.AutoConfig.from_pretrained(fixture)
        kind = getattr(transformers, config.architectures[0])
        with torch.no_grad():
            merged = logits_of(
                kind.from_pretrained(path / "merged").eval(), values)
            # expected.safetensors is not part of the model.
            with tempfile.TemporaryDirectory() as base:
                for file in fixture.iterdir():
                    if not file.name.startswith("expected"):
                        os.symlink(file, pathlib.Path(base) / file.name)
                model = kind.from_pretrained(base).eval()
            before = logits_of(model, values)
            model = peft.PeftModel.from_pretrained(model, path / "adapters")
            adapted = logits_of(model.eval(), values)
        self.assertGreater((adapted - before).abs().max().item(), 0.01)
        difference = (adapted - merged).abs().max().item()
        self.assertLess(difference / max(1, merged.abs().max().item()), 1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
