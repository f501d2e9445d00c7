# SPDX-License-Identifier: Apache-2.0
"""Reads the event file of a training run with TensorBoard's own reader.

    tensorboard_test.py TRANSFORMER_LM

Skips with code 77 where the Python package tensorboard is not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.custom_scalar import layout_pb2
except ImportError:
    print("skipped: the Python package tensorboard is not installed")
    sys.exit(77)

STEPS = 12


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = folder / "text"
        text.write_text("".join(f"{i} and {i * i}\n" for i in range(500)))
        subprocess.run(
            [sys.argv[1], f"--text={text}", f"--steps={STEPS}", "--batch=2",
             "--length=8", "--layers=1", "--d_model=8", "--heads=2",
             "--d_kv=4", "--d_ff=8", "--sample_bytes=3", "--sample_every=6",
             "--histograms_every=6",
             f"--events={folder / 'events'}", f"--log_json={folder / 'log'}"],
            check=True, stdout=subprocess.DEVNULL)
        losses = [json.loads(line)["loss"]
                  for line in (folder / "log").read_text().splitlines()]
        events = event_accumulator.EventAccumulator(
            str(folder / "events"), size_guidance={"tensors": 0, "scalars": 0,
                                                "histograms": 0})
        events.Reload()
        tags = events.Tags()
        assert {"loss", "learning_rate", "speed/tokens_per_s",
                "speed/data_wait_s"} <= set(tags["scalars"]), tags
        scalars = events.Scalars("loss")
        assert [s.step for s in scalars] == list(range(STEPS)), scalars
        for scalar, loss in zip(scalars, losses):
            assert abs(scalar.value - loss) <= 1e-6 * loss, (scalar, loss)
        assert "sample" in "".join(tags["tensors"]), tags
        samples = events.Tensors("sample")
        assert [s.step for s in samples] == [5, 11], samples
        plugin = events.SummaryMetadata("sample").plugin_data.plugin_name
        assert plugin == "text", plugin
        assert tags["histograms"], tags
        for name in tags["histograms"]:
            histograms = events.Histograms(name)
            assert [h.step for h in histograms] == [5, 11], histograms
            for histogram in histograms:
                value = histogram.histogram_value
                assert value.num == sum(value.bucket) > 0, (name, value)
                assert value.min <= value.max, (name, value)
        config = "custom_scalars__config__"
        plugin = events.SummaryMetadata(config).plugin_data.plugin_name
        assert plugin == "custom_scalars", plugin
        layout = layout_pb2.Layout.FromString(
            events.Tensors(config)[0].tensor_proto.string_val[0])
        charts = {chart.title: list(chart.multiline.tag)
                  for chart in layout.category[0].chart}
        assert charts["learning rate"] == ["^learning_rate$"], charts
        assert charts["loss"] == ["^loss$", "^evaluation/loss$"], charts
        print(f"TensorBoard reads {len(scalars)} losses, "
              f"{len(tags['histograms'])} parameters and "
              f"{len(samples)} samples")


main()
