// SPDX-License-Identifier: Apache-2.0
//
// ParseManifest: what a manifest says is checked before anything relies on it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/errors.h"
#include "mtf/status.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/manifest_body.h"
#include "train/checkpoint/strict_json.h"

namespace mtf::train {
namespace {

using Kind = JsonNode::Kind;

// The members of an object by name. Each must be taken, so that no unknown one
// is ignored.
class ManifestFields {
 public:
  ManifestFields(const JsonNode& object, std::string what)
      : what_(std::move(what)) {
    for (const JsonNode& member : object.children()) {
      members_.emplace(member.key(), member);
    }
  }

  // Returns and removes a member of the kind; kDataLoss if there is none.
  absl::StatusOr<JsonNode> Take(absl::string_view name, Kind kind) {
    const auto found = members_.find(std::string(name));
    if (found == members_.end() || !found->second.is(kind)) {
      return absl::DataLossError(absl::StrCat("field \"", name, "\" of ", what_,
                                              " is missing or of a wrong "
                                              "kind"));
    }
    const JsonNode value = found->second;
    members_.erase(found);
    return value;
  }
  // As above, for an integer in [least, most].
  absl::StatusOr<int64_t> TakeInteger(absl::string_view name, int64_t least,
                                      int64_t most) {
    MTF_ASSIGN_OR_RETURN(const JsonNode value, Take(name, Kind::kInteger));
    if (value.integer() >= least && value.integer() <= most) {
      return value.integer();
    }
    return absl::DataLossError(
        absl::StrCat("field \"", name, "\" of ", what_, " is ", value.integer(),
                     ", outside [", least, ", ", most, "]"));
  }
  absl::StatusOr<std::string> TakeText(absl::string_view name) {
    MTF_ASSIGN_OR_RETURN(const JsonNode value, Take(name, Kind::kText));
    return std::string(value.text());
  }
  bool Has(absl::string_view name) const {
    return members_.contains(std::string(name));
  }
  absl::Status CheckEmpty() const {
    if (members_.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        what_, " has the unknown field ", Quoted(members_.begin()->first),
        DetailLine("help", "a newer version of mtf may have written it")));
  }

 private:
  std::string what_;
  std::map<std::string, JsonNode> members_;
};

constexpr int64_t kMostInteger = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostUint32 = std::numeric_limits<uint32_t>::max();

absl::StatusOr<ManifestFile> ParseFile(const JsonNode& object) {
  ManifestFields fields(object, "a file");
  ManifestFile file;
  MTF_ASSIGN_OR_RETURN(file.name, fields.TakeText("name"));
  if (!IsPlainFileName(file.name)) {
    return absl::DataLossError(
        absl::StrCat(Quoted(file.name),
                     " is not the name of a file in the folder of the "
                     "checkpoint"));
  }
  MTF_ASSIGN_OR_RETURN(file.bytes,
                       fields.TakeInteger("bytes", 0, kMostInteger));
  MTF_ASSIGN_OR_RETURN(file.beginning_checksum,
                       fields.TakeInteger("beginning_crc32c", 0, kMostUint32));
  MTF_RETURN_IF_ERROR(fields.CheckEmpty());
  return file;
}

// Reads pairs of a JSON array: [["vocab", 256], ...] or [[0, 128], ...].
absl::StatusOr<std::vector<std::pair<JsonNode, JsonNode>>> ParsePairs(
    const JsonNode& array, Kind first, const std::string& variable) {
  std::vector<std::pair<JsonNode, JsonNode>> pairs;
  for (const JsonNode& pair : array.children()) {
    const std::vector<JsonNode> both = pair.children();
    if (!pair.is(Kind::kArray) || both.size() != 2 || !both[0].is(first) ||
        !both[1].is(Kind::kInteger)) {
      return absl::DataLossError(
          absl::StrCat("\"", array.key(), "\" of variable ", Quoted(variable),
                       " has an element that is not a pair"));
    }
    pairs.emplace_back(both[0], both[1]);
  }
  return pairs;
}

absl::StatusOr<ManifestShard> ParseShard(const JsonNode& object,
                                         const ManifestVariable& variable,
                                         const Manifest& manifest) {
  const std::string what =
      absl::StrCat("a shard of variable ", Quoted(variable.name));
  ManifestFields fields(object, what);
  ManifestShard shard;
  MTF_ASSIGN_OR_RETURN(
      shard.file,
      fields.TakeInteger("file", 0,
                         static_cast<int64_t>(manifest.files.size()) - 1));
  MTF_ASSIGN_OR_RETURN(const JsonNode ranges,
                       fields.Take("ranges", Kind::kArray));
  MTF_ASSIGN_OR_RETURN(const auto pairs,
                       ParsePairs(ranges, Kind::kInteger, variable.name));
  std::vector<int64_t> sizes;
  for (const Dimension& dim : variable.shape) sizes.push_back(dim.size);
  for (const auto& [begin, size] : pairs) {
    shard.ranges.push_back({begin.integer(), size.integer()});
  }
  if (!IsWithin(shard.ranges, sizes) || NumElements(shard.ranges) == 0) {
    return absl::DataLossError(
        absl::StrCat(what, " is not a range of ",
                     DescribeTensor(variable.dtype, variable.shape)));
  }
  MTF_ASSIGN_OR_RETURN(const JsonNode checksums,
                       fields.Take("crc32c", Kind::kArray));
  for (const JsonNode& checksum : checksums.children()) {
    if (!checksum.is(Kind::kInteger) || checksum.integer() < 0 ||
        checksum.integer() > kMostUint32) {
      return absl::DataLossError(
          absl::StrCat(what, " has a checksum that is no 32-bit integer"));
    }
    shard.checksums.push_back(static_cast<uint32_t>(checksum.integer()));
  }
  const int64_t bytes = NumElements(shard.ranges) * DTypeSize(variable.dtype);
  const int64_t blocks =
      bytes / manifest.block_bytes + (bytes % manifest.block_bytes != 0);
  if (static_cast<int64_t>(shard.checksums.size()) != blocks) {
    return absl::DataLossError(
        absl::StrCat(what, " has ", shard.checksums.size(), " checksums for ",
                     blocks, " blocks"));
  }
  MTF_RETURN_IF_ERROR(fields.CheckEmpty());
  return shard;
}

absl::StatusOr<Shape> ParseShape(const JsonNode& array,
                                 const ManifestVariable& variable) {
  MTF_ASSIGN_OR_RETURN(const auto pairs,
                       ParsePairs(array, Kind::kText, variable.name));
  std::vector<Dimension> dims;
  for (const auto& [name, size] : pairs) {
    dims.push_back({std::string(name.text()), size.integer()});
  }
  Shape shape(std::move(dims));
  const absl::Status valid = shape.Validate();
  if (valid.ok() && shape.num_elements() <= kMostInteger / 16) return shape;
  return absl::DataLossError(absl::StrCat(
      "the shape of variable ", Quoted(variable.name),
      " is not one: ", valid.ok() ? "too many elements" : valid.message()));
}

absl::StatusOr<ManifestVariable> ParseVariable(const JsonNode& object,
                                               const Manifest& manifest) {
  ManifestFields fields(object, "a variable");
  ManifestVariable variable;
  MTF_ASSIGN_OR_RETURN(variable.name, fields.TakeText("name"));
  MTF_ASSIGN_OR_RETURN(const std::string kind, fields.TakeText("kind"));
  const auto found = std::find(kManifestKinds.begin(), kManifestKinds.end(),
                               absl::string_view(kind));
  MTF_ASSIGN_OR_RETURN(const std::string dtype, fields.TakeText("dtype"));
  const absl::StatusOr<DType> parsed = ParseDType(dtype);
  if (found == kManifestKinds.end() || !parsed.ok()) {
    return absl::DataLossError(absl::StrCat(
        "variable ", Quoted(variable.name), " has the unknown kind ",
        Quoted(kind), " or dtype ", Quoted(dtype)));
  }
  variable.kind = static_cast<VariableKind>(found - kManifestKinds.begin());
  variable.dtype = *parsed;
  MTF_ASSIGN_OR_RETURN(const JsonNode shape,
                       fields.Take("shape", Kind::kArray));
  MTF_ASSIGN_OR_RETURN(variable.shape, ParseShape(shape, variable));
  MTF_ASSIGN_OR_RETURN(const JsonNode shards,
                       fields.Take("shards", Kind::kArray));
  for (const JsonNode& shard : shards.children()) {
    MTF_ASSIGN_OR_RETURN(ManifestShard one,
                         ParseShard(shard, variable, manifest));
    variable.shards.push_back(std::move(one));
  }
  MTF_RETURN_IF_ERROR(fields.CheckEmpty());
  return variable;
}

absl::Status ParseMetric(ManifestFields& fields, Manifest& manifest) {
  if (!fields.Has("metric")) return absl::OkStatus();
  absl::StatusOr<JsonNode> metric = fields.Take("metric", Kind::kNumber);
  if (!metric.ok()) metric = fields.Take("metric", Kind::kInteger);
  MTF_RETURN_IF_ERROR(metric.status());
  if (!std::isfinite(metric->number())) {
    return absl::DataLossError("the metric is not finite");
  }
  manifest.metric = metric->number();
  return absl::OkStatus();
}

// Reads all fields but those of files and variables.
absl::Status ParseDescription(ManifestFields& fields, Manifest& manifest) {
  MTF_RETURN_IF_ERROR(fields.TakeInteger("format_version", 1, 1).status());
  MTF_ASSIGN_OR_RETURN(manifest.save_id, fields.TakeText("save_id"));
  MTF_ASSIGN_OR_RETURN(manifest.step,
                       fields.TakeInteger("step", 0, kMostInteger));
  MTF_ASSIGN_OR_RETURN(manifest.seed,
                       fields.TakeInteger("seed", 0, kMostUint32));
  MTF_ASSIGN_OR_RETURN(manifest.mesh, fields.TakeText("mesh"));
  MTF_ASSIGN_OR_RETURN(manifest.program, fields.TakeText("program"));
  MTF_ASSIGN_OR_RETURN(manifest.library_version,
                       fields.TakeText("library_version"));
  MTF_RETURN_IF_ERROR(ParseMetric(fields, manifest));
  MTF_ASSIGN_OR_RETURN(const JsonNode extra,
                       fields.Take("extra", Kind::kObject));
  for (const JsonNode& member : extra.children()) {
    if (!member.is(Kind::kText)) {
      return absl::DataLossError(absl::StrCat("entry ", Quoted(member.key()),
                                              " of \"extra\" is not a string"));
    }
    manifest.extra.emplace(member.key(), member.text());
  }
  MTF_ASSIGN_OR_RETURN(manifest.block_bytes,
                       fields.TakeInteger("block_bytes", 8, 1 << 30));
  if (manifest.block_bytes % 8 == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "\"block_bytes\" is ", manifest.block_bytes, ", no multiple of 8"));
}

// Checks that no name occurs twice.
template <class Items>
absl::Status CheckNames(const Items& items, absl::string_view what) {
  std::set<absl::string_view> names;
  for (const auto& item : items) {
    if (names.insert(item.name).second) continue;
    return absl::DataLossError(
        absl::StrCat(what, " ", Quoted(item.name), " occurs twice"));
  }
  return absl::OkStatus();
}

// Shards come from layouts, so they form a grid: along each dimension their
// ranges are those of a partition, and each combination of them occurs once.
absl::Status CheckGrid(const ManifestVariable& variable) {
  const auto broken = [&](absl::string_view how) {
    return absl::DataLossError(
        absl::StrCat("the shards of variable ", Quoted(variable.name), " ",
                     DescribeTensor(variable.dtype, variable.shape), " ", how));
  };
  if (variable.shape.num_elements() == 0) return absl::OkStatus();
  size_t combinations = 1;
  for (int i = 0; i < variable.shape.rank(); ++i) {
    std::set<std::pair<int64_t, int64_t>> ranges;
    for (const ManifestShard& shard : variable.shards) {
      ranges.emplace(shard.ranges[i].begin, shard.ranges[i].size);
    }
    int64_t end = 0;
    for (const auto& [begin, size] : ranges) {
      if (begin != end) return broken("overlap or leave a gap");
      end += size;
    }
    if (end != variable.shape[i].size) return broken("leave a gap");
    // At most the number of shards for each dimension.
    if (__builtin_mul_overflow(combinations, ranges.size(), &combinations)) {
      return broken("leave a gap");
    }
  }
  std::set<std::vector<int64_t>> begins;
  for (const ManifestShard& shard : variable.shards) {
    std::vector<int64_t> begin;
    for (const ElementRange& range : shard.ranges) begin.push_back(range.begin);
    if (!begins.insert(std::move(begin)).second) return broken("overlap");
  }
  return begins.size() == combinations ? absl::OkStatus()
                                       : broken("leave a gap");
}

}  // namespace

absl::Status CheckCoverage(const Manifest& manifest) {
  for (const ManifestVariable& variable : manifest.variables) {
    MTF_RETURN_IF_ERROR(CheckGrid(variable));
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       Coverage coverage) {
  MTF_ASSIGN_OR_RETURN(const absl::string_view body, CheckedManifestBody(text));
  const absl::StatusOr<JsonDocument> document =
      JsonDocument::Parse(body, {.most_bytes = kMostManifestBytes});
  if (!document.ok()) return absl::DataLossError(document.status().message());
  ManifestFields fields(document->root(), "the manifest");
  Manifest manifest;
  MTF_RETURN_IF_ERROR(ParseDescription(fields, manifest));
  MTF_ASSIGN_OR_RETURN(const JsonNode files,
                       fields.Take("files", Kind::kArray));
  for (const JsonNode& file : files.children()) {
    MTF_ASSIGN_OR_RETURN(ManifestFile one, ParseFile(file));
    manifest.files.push_back(std::move(one));
  }
  MTF_ASSIGN_OR_RETURN(const JsonNode variables,
                       fields.Take("variables", Kind::kArray));
  for (const JsonNode& variable : variables.children()) {
    MTF_ASSIGN_OR_RETURN(ManifestVariable one,
                         ParseVariable(variable, manifest));
    std::set<int> shard_files;
    for (const ManifestShard& shard : one.shards) {
      if (shard_files.insert(shard.file).second) continue;
      return absl::DataLossError(absl::StrCat("variable ", Quoted(one.name),
                                              " has two shards in one file"));
    }
    manifest.variables.push_back(std::move(one));
  }
  MTF_RETURN_IF_ERROR(fields.CheckEmpty());
  MTF_RETURN_IF_ERROR(CheckNames(manifest.files, "file"));
  MTF_RETURN_IF_ERROR(CheckNames(manifest.variables, "variable"));
  if (coverage == Coverage::kAll) {
    MTF_RETURN_IF_ERROR(CheckCoverage(manifest));
  }
  return manifest;
}

}  // namespace mtf::train
