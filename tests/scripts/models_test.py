# SPDX-License-Identifier: Apache-2.0
"""Weights and adapters that the library has exported, loaded by the packages
transformers and peft: the logits are those of the weights that it was loaded
from, and of the merged model. Adapters that peft has saved have its logits in
the library. Skips without the packages."""

import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
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


def names():
    return sorted(path.name for path in FIXTURES.iterdir())


def fixture_model(name):
    """The model of a fixture. expected.safetensors is no part of it."""
    with tempfile.TemporaryDirectory() as folder:
        for file in (FIXTURES / name).iterdir():
            if not file.name.startswith("expected"):
                os.symlink(file, pathlib.Path(folder) / file.name)
        config = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, config.architectures[0])
        return kind.from_pretrained(folder).eval()


def expected_values(name):
    return load_file(FIXTURES / name / "expected.safetensors")


def run_cases(pattern, **environment):
    result = subprocess.run([BINARY, f"--gtest_filter={pattern}"],
                            capture_output=True, text=True, timeout=200,
                            env=dict(os.environ, **environment))
    if result.returncode != 0:
        raise AssertionError(result.stdout[-4000:] + result.stderr[-4000:])


@unittest.skipIf(MISSING, MISSING)
class ExportedModels(unittest.TestCase):
    def test_the_reference_computes_the_same_logits(self):
        with tempfile.TemporaryDirectory() as folder:
            run_cases("*AreWrittenForTheReference*", MTF_EXPORT_FOLDER=folder)
            exported = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual([path.name for path in exported], names())
            for path in exported:
                with self.subTest(path.name):
                    self.compare(path)

    def compare(self, path):
        values = expected_values(path.name)
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
            run_cases("*AreWrittenForPeft*", MTF_ADAPTERS_FOLDER=folder)
            exported = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual([path.name for path in exported], names())
            for path in exported:
                with self.subTest(path.name):
                    self.compare(path)

    def compare(self, path):
        values = expected_values(path.name)
        model = fixture_model(path.name)
        with torch.no_grad():
            merged = logits_of(
                type(model).from_pretrained(path / "merged").eval(), values)
            before = logits_of(model, values)
            model = peft.PeftModel.from_pretrained(model, path / "adapters")
            adapted = logits_of(model.eval(), values)
        self.assertGreater((adapted - before).abs().max().item(), 0.01)
        difference = (adapted - merged).abs().max().item()
        self.assertLess(difference / max(1, merged.abs().max().item()), 1e-5)


@unittest.skipIf(NO_PEFT, NO_PEFT)
class SavedAdapters(unittest.TestCase):
    def test_are_loaded_as_peft_computes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in names():
                with self.subTest(name):
                    self.save(name, pathlib.Path(folder) / name)
            run_cases("*AreLoadedAsPeftSavedThem*", MTF_PEFT_FOLDER=folder)

    def save(self, name, path):
        torch.manual_seed(7)
        model = fixture_model(name)
        kinds = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
        heads = ("lm_head", "cls.predictions.decoder")
        targets = [module for module, layer in model.named_modules()
                   if isinstance(layer, kinds) and module not in heads]
        config = peft.LoraConfig(
            r=3, lora_alpha=5, target_modules=targets, init_lora_weights=False,
            use_rslora=name in ("llama3", "bert"),
            alpha_pattern={targets[-1]: 7.5}, fan_in_fan_out=name == "gpt2")
        model = peft.get_peft_model(model, config).eval()
        model.save_pretrained(path)
        with torch.no_grad():
            logits = logits_of(model, expected_values(name))
        save_file({"logits": logits.contiguous()},
                  path / "expected.safetensors")


if __name__ == "__main__":
    unittest.main(verbosity=2)
