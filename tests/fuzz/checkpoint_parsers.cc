// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/fuzz/parsers.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_set.h"
#include "train/checkpoint/strict_json.h"
#include "train/crc32c.h"

namespace mtf::fuzzing {
namespace {

// The whole file: header and elements of each tensor.
absl::Status ReadSafetensors(absl::string_view bytes) {
  const auto file =
      train::SafetensorsFile::Open(FuzzedFile("fuzzed.safetensors", bytes));
  if (!file.ok()) return file.status();
  for (const train::SafetensorsEntry& entry : (*file)->entries()) {
    if (entry.dtype.has_value()) {
      const auto tensor = (*file)->Read(entry.name);
      if (!tensor.ok()) return tensor.status();
    }
  }
  return absl::OkStatus();
}

absl::Status ParseIndex(absl::string_view bytes) {
  return train::ParseSafetensorsIndex(bytes).status();
}

absl::Status ParseJson(absl::string_view bytes) {
  return train::JsonDocument::Parse(bytes).status();
}

// The body of a manifest, with the right checksum added: a fuzzer would hardly
// ever find one, and then never reach the parser of the body.
absl::Status ParseManifestBody(absl::string_view body) {
  const std::string text = absl::StrCat(
      "{\"crc32c\": \"", absl::StrFormat("%08x", train::Crc32c(body)),
      "\",\n\"manifest\": ", body, "}\n");
  const auto manifest = train::ParseManifest(text, train::Coverage::kAll);
  if (!manifest.ok()) return manifest.status();
  const std::string printed = train::ManifestText(*manifest);
  const auto again = train::ParseManifest(printed, train::Coverage::kAll);
  if (!again.ok()) CheckSameText(printed, again.status().message());
  CheckSameText(printed, train::ManifestText(*again));
  return absl::OkStatus();
}

std::string SafetensorsSeed() {
  train::SafetensorsHeader header;
  auto bytes =
      train::MakeSafetensorsHeader({{"w", kFloat32, {2, 3}}, {"b", kInt32, {}}},
                                   {{"format", "pt"}}, &header);
  return bytes.ok() ? *bytes + std::string(28, '\x3f') : "";
}

std::string ManifestSeed() {
  train::Manifest manifest;
  manifest.save_id = "0123456789abcdef";
  manifest.step = 300;
  manifest.mesh = "data:2";
  manifest.program = "lm";
  manifest.library_version = "1.0";
  manifest.extra = {{"flags", "--a=\"b\"\n"}};
  manifest.block_bytes = 16;
  manifest.files = {{"shard_00000.safetensors", 100, 5},
                    {"shard_00001.safetensors", 90, 4000000000u}};
  manifest.variables = {
      {"w",
       VariableKind::kParameter,
       kFloat32,
       {{"rows", 5}, {"columns", 2}},
       {{0, {{0, 3}, {0, 2}}, {1, 2}}, {1, {{3, 2}, {0, 2}}, {3}}}}};
  const std::string text = train::ManifestText(manifest);
  const size_t begin = std::min(text.find("\"manifest\": "), text.size() - 14);
  return text.substr(begin + 12, text.size() - begin - 14);
}

constexpr char kIndex[] =
    R"({"metadata": {"total_size": 12}, "weight_map": {"a": "x.safetensors",
 "b": "y.safetensors"}})";

}  // namespace

std::vector<FuzzedParser> CheckpointParsers() {
  return {{"safetensors", {SafetensorsSeed()}, ReadSafetensors},
          {"safetensors_index", {kIndex}, ParseIndex},
          {"manifest", {ManifestSeed()}, ParseManifestBody},
          {"strict_json",
           {kIndex, R"([1, -2.5e3, "\u00e4\ud83d\ude00", true, null])"},
           ParseJson}};
}

}  // namespace mtf::fuzzing
