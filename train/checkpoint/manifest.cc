// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/manifest.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/checkpoint/manifest_body.h"
#include "train/checkpoint/strict_json.h"
#include "train/crc32c.h"

namespace mtf::train {
namespace {

std::string VariableText(const ManifestVariable& variable) {
  std::string text = absl::StrCat(
      "{\"name\": ", JsonText(variable.name), ", \"kind\": \"",
      kManifestKinds[static_cast<int>(variable.kind)], "\", \"dtype\": \"",
      DTypeName(variable.dtype), "\", \"shape\": [",
      absl::StrJoin(variable.shape, ", ",
                    [](std::string* out, const Dimension& dim) {
                      absl::StrAppend(out, "[", JsonText(dim.name), ", ",
                                      dim.size, "]");
                    }),
      "], \"shards\": [");
  for (const ManifestShard& shard : variable.shards) {
    absl::StrAppend(
        &text, &shard == &variable.shards[0] ? "" : ", ",
        "{\"file\": ", shard.file, ", \"ranges\": [",
        absl::StrJoin(shard.ranges, ", ",
                      [](std::string* out, const ElementRange& range) {
                        absl::StrAppend(out, "[", range.begin, ", ", range.size,
                                        "]");
                      }),
        "], \"crc32c\": [", absl::StrJoin(shard.checksums, ", "), "]}");
  }
  return absl::StrCat(text, "]}");
}

std::string FileText(const ManifestFile& file) {
  return absl::StrCat("{\"name\": ", JsonText(file.name),
                      ", \"bytes\": ", file.bytes,
                      ", \"beginning_crc32c\": ", file.beginning_checksum, "}");
}

std::string BodyText(const Manifest& manifest) {
  std::string text = absl::StrCat(
      "{\"format_version\": 1,\n\"save_id\": ", JsonText(manifest.save_id),
      ",\n\"step\": ", manifest.step, ",\n\"seed\": ", manifest.seed,
      ",\n\"mesh\": ", JsonText(manifest.mesh),
      ",\n\"program\": ", JsonText(manifest.program),
      ",\n\"library_version\": ", JsonText(manifest.library_version));
  if (manifest.metric.has_value()) {
    // Enough digits that reading it gives the same number.
    absl::StrAppend(
        &text, ",\n\"metric\": ", absl::StrFormat("%.17g", *manifest.metric));
  }
  const auto lines = [](const auto& items, const auto& text_of) {
    return absl::StrJoin(items, ",\n  ",
                         [&](std::string* out, const auto& item) {
                           absl::StrAppend(out, text_of(item));
                         });
  };
  absl::StrAppend(&text, ",\n\"extra\": ", JsonObjectOfTexts(manifest.extra),
                  ",\n\"block_bytes\": ", manifest.block_bytes,
                  ",\n\"files\": [\n  ", lines(manifest.files, FileText),
                  "],\n\"variables\": [\n  ",
                  lines(manifest.variables, VariableText), "]}");
  return text;
}

constexpr absl::string_view kBeforeChecksum = "{\"crc32c\": \"";
constexpr absl::string_view kAfterChecksum = "\",\n\"manifest\": ";
constexpr absl::string_view kEnd = "}\n";

}  // namespace

std::vector<uint32_t> BlockChecksums(absl::string_view bytes,
                                     int64_t block_bytes) {
  std::vector<uint32_t> checksums;
  for (size_t at = 0; at < bytes.size(); at += block_bytes) {
    checksums.push_back(Crc32c(bytes.substr(at, block_bytes)));
  }
  return checksums;
}

std::string ManifestText(const Manifest& manifest) {
  const std::string body = BodyText(manifest);
  return absl::StrCat(kBeforeChecksum, absl::StrFormat("%08x", Crc32c(body)),
                      kAfterChecksum, body, kEnd);
}

absl::StatusOr<absl::string_view> CheckedManifestBody(absl::string_view text) {
  const size_t digits = 8;
  const size_t begin = kBeforeChecksum.size() + digits + kAfterChecksum.size();
  uint32_t stated = 0;
  if (text.size() < begin + kEnd.size() ||
      !absl::StartsWith(text, kBeforeChecksum) || !absl::EndsWith(text, kEnd) ||
      text.substr(kBeforeChecksum.size() + digits, kAfterChecksum.size()) !=
          kAfterChecksum ||
      !absl::SimpleHexAtoi(text.substr(kBeforeChecksum.size(), digits),
                           &stated)) {
    return absl::DataLossError(
        absl::StrCat("not a complete manifest: its ", text.size(),
                     " bytes do not begin with a checksum or do not end with "
                     "\"}\""));
  }
  const absl::string_view body =
      text.substr(begin, text.size() - begin - kEnd.size());
  const uint32_t checksum = Crc32c(body);
  // Of the digits, so that a letter in the other case is not accepted.
  if (absl::StrFormat("%08x", checksum) !=
      text.substr(kBeforeChecksum.size(), digits)) {
    return absl::DataLossError(absl::StrCat(
        "bytes ", begin, "-", begin + body.size(), " have the checksum ",
        absl::StrFormat("%08x", checksum), ", but the manifest says ",
        absl::StrFormat("%08x", stated)));
  }
  return body;
}

void MergeManifest(const Manifest& part, Manifest& manifest) {
  const int first = static_cast<int>(manifest.files.size());
  manifest.files.insert(manifest.files.end(), part.files.begin(),
                        part.files.end());
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < manifest.variables.size(); ++i) {
    known[manifest.variables[i].name] = i;
  }
  for (const ManifestVariable& variable : part.variables) {
    const auto [at, is_new] =
        known.try_emplace(variable.name, manifest.variables.size());
    if (is_new) {
      manifest.variables.push_back(variable);
      manifest.variables.back().shards.clear();
    }
    for (const ManifestShard& shard : variable.shards) {
      std::vector<ManifestShard>& shards =
          manifest.variables[at->second].shards;
      shards.push_back(shard);
      shards.back().file += first;
    }
  }
}

}  // namespace mtf::train
