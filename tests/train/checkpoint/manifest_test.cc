// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/manifest.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "train/crc32c.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::mtf::testing::ThoroughTests;
using ::testing::HasSubstr;

constexpr auto kBroken = absl::StatusCode::kDataLoss;

Manifest Example() {
  Manifest manifest;
  manifest.save_id = "0123456789abcdef";
  manifest.step = 300;
  manifest.seed = 4294967295u;
  manifest.mesh = "data:2";
  manifest.program = "lm";
  manifest.library_version = "1.0";
  manifest.metric = 0.1;
  manifest.extra = {{"flags", "--a=\"b\"\n"}, {"\xC3\xA4", ""}};
  manifest.block_bytes = 16;
  manifest.files = {{"shard_00000.safetensors", 100, 5},
                    {"shard_00001.safetensors", 90, 4000000000u}};
  manifest.variables = {
      {"w",
       VariableKind::kParameter,
       kFloat32,
       {{"rows", 5}, {"columns", 2}},
       {{0, {{0, 3}, {0, 2}}, {1, 2}}, {1, {{3, 2}, {0, 2}}, {3}}}},
      {"n", VariableKind::kOptimizerState, kInt32, {}, {{0, {}, {9}}}},
      {"none", VariableKind::kState, kBool, {{"rows", 0}}, {}}};
  return manifest;
}

// A manifest with this body and its checksum.
std::string WithChecksum(const std::string& body) {
  return absl::StrCat("{\"crc32c\": \"", absl::StrFormat("%08x", Crc32c(body)),
                      "\",\n\"manifest\": ", body, "}\n");
}
std::string BodyOf(const std::string& text) {
  const size_t begin = text.find("\"manifest\": ") + 12;
  return text.substr(begin, text.size() - begin - 2);
}

TEST(Manifest, IsReadAsItWasWritten) {
  const std::string text = ManifestText(Example());
  const auto parsed = ParseManifest(text, Coverage::kAll);
  ASSERT_OK(parsed);
  EXPECT_EQ(ManifestText(*parsed), text);
  EXPECT_EQ(parsed->metric, 0.1);
  EXPECT_EQ(parsed->extra, Example().extra);
  EXPECT_EQ(parsed->variables[0].shards[1].ranges,
            ElementRanges({{3, 2}, {0, 2}}));
  EXPECT_EQ(WithChecksum(BodyOf(text)), text);
}

TEST(Manifest, PartsAreMerged) {
  Manifest whole = Example();
  Manifest parts[2];
  for (int i = 0; i < 2; ++i) {
    parts[i].files = {whole.files[i]};
    for (ManifestVariable variable : whole.variables) {
      std::erase_if(variable.shards, [i](const ManifestShard& shard) {
        return shard.file != i;
      });
      if (variable.shards.empty()) continue;
      variable.shards[0].file = 0;
      parts[i].variables.push_back(variable);
    }
  }
  Manifest merged = Example();
  merged.files.clear();
  for (ManifestVariable& variable : merged.variables) variable.shards.clear();
  MergeManifest(parts[0], merged);
  EXPECT_THAT(
      CheckCoverage(merged),
      StatusIs(kBroken, HasSubstr("the shards of variable \"w\" "
                                  "f32[rows=5, columns=2] leave a gap")));
  MergeManifest(parts[1], merged);
  EXPECT_OK(CheckCoverage(merged));
  EXPECT_EQ(ManifestText(merged), ManifestText(whole));
}

TEST(ManifestErrors, WhatItSaysIsChecked) {
  const std::string body = BodyOf(ManifestText(Example()));
  const std::pair<std::string, std::string> edits[] = {
      {"\"step\": 300", "\"step\": -1"},
      {"\"step\": 300", "\"step\": \"300\""},
      {"\"step\": 300", "\"steps\": 300"},
      {"\"format_version\": 1", "\"format_version\": 2"},
      {"\"seed\": 4294967295", "\"seed\": 4294967296"},
      {"\"metric\": 0.10000000000000001", "\"metric\": \"x\""},
      {"\"block_bytes\": 16", "\"block_bytes\": 12"},
      {"\"block_bytes\": 16", "\"block_bytes\": 8"},
      {"\"block_bytes\": 16", "\"block_bytes\": 0"},
      {"shard_00001.safetensors", "../x"},
      {"shard_00001.safetensors", "shard_00000.safetensors"},
      {"\"bytes\": 90", "\"bytes\": -90"},
      {"4000000000", "5000000000"},
      {"\"kind\": \"state\"", "\"kind\": \"stat\""},
      {"\"dtype\": \"i32\"", "\"dtype\": \"i33\""},
      {"[\"rows\", 5]", "[\"rows\", 6]"},
      {"[\"rows\", 5]", "[\"rows\", 4611686018427387904]"},
      {"[\"rows\", 5]", "[\"rows\", -5]"},
      {"[\"rows\", 5]", "[\"columns\", 5]"},
      {"[\"rows\", 5]", "[\"rows\"]"},
      {"[\"rows\", 5]", "5"},
      {"\"ranges\": [[0, 3]", "\"ranges\": [[0, 4]"},
      {"\"ranges\": [[0, 3]", "\"ranges\": [[1, 3]"},
      {"\"ranges\": [[0, 3]", "\"ranges\": [[0, 0]"},
      {"\"ranges\": [[0, 3]", "\"ranges\": [[-1, 3]"},
      {"\"ranges\": [[0, 3]", "\"ranges\": [[0, 9223372036854775807]"},
      {"\"ranges\": [[3, 2]", "\"ranges\": [[2, 3]"},
      {"\"ranges\": [[3, 2], [0, 2]]", "\"ranges\": [[3, 2]]"},
      {"\"ranges\": [[3, 2], [0, 2]]", "\"ranges\": [[3, 2], [0, 1]]"},
      {"\"file\": 1", "\"file\": 2"},
      {"\"file\": 1", "\"file\": 0"},
      {"\"file\": 1", "\"file\": -1"},
      {"\"crc32c\": [3]", "\"crc32c\": [3, 4]"},
      {"\"crc32c\": [3]", "\"crc32c\": [-3]"},
      {"\"name\": \"n\"", "\"name\": \"w\""},
      {"\"flags\": ", "\"flags\": 1, \"x\": "},
      {"\"extra\": {", "\"extra\": {}, \"unknown\": {"}};
  for (const auto& [from, to] : edits) {
    const std::string edited = absl::StrReplaceAll(body, {{from, to}});
    ASSERT_NE(edited, body) << from;
    EXPECT_EQ(
        ParseManifest(WithChecksum(edited), Coverage::kAll).status().code(),
        kBroken)
        << from << " to " << to;
  }
  EXPECT_THAT(ParseManifest("{}", Coverage::kAll),
              StatusIs(kBroken, HasSubstr("not a complete manifest")));
  EXPECT_THAT(ParseManifest(WithChecksum("[]"), Coverage::kAll),
              StatusIs(kBroken, HasSubstr("\"format_version\" of the manifest "
                                          "is missing")));
}

// With a checksum that matches, so that it does not hide the parser.
TEST(ManifestErrors, MutatedTexts) {
  const std::string body = BodyOf(ManifestText(Example()));
  const std::string pieces[] = {"{",
                                "}",
                                "[",
                                "]",
                                "\"",
                                ":",
                                ",",
                                "-",
                                "0",
                                "99",
                                "1e9",
                                "\\",
                                "null",
                                "\xff",
                                "[0, 2]",
                                "\"w\"",
                                "18446744073709551615"};
  std::mt19937 random(2);
  const int count = ThoroughTests() ? 3000 : 300;
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    std::string text = body;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      const std::string& piece = pieces[random() % std::size(pieces)];
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.insert(at, piece);
          break;
        case 2:
          text.replace(at, std::min<size_t>(text.size() - at, 1 + random() % 9),
                       piece);
          break;
        default:
          text = text.substr(0, at) + text.substr(random() % text.size());
      }
      if (text.empty()) text = " ";
    }
    const auto parsed = ParseManifest(WithChecksum(text), Coverage::kAll);
    accepted += parsed.ok();
    if (parsed.ok()) continue;  // another name, step, or checksum
    EXPECT_EQ(parsed.status().code(), kBroken) << text;
    EXPECT_GT(parsed.status().message().size(), 10u) << text;
    EXPECT_LT(parsed.status().message().size(), 2000u) << text;
    for (char c : parsed.status().message()) {
      EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << parsed.status();
    }
  }
  EXPECT_LT(accepted, count / 2);
}

}  // namespace
}  // namespace mtf::train
