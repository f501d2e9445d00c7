// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a checkpoint: which variables it has, where their shards are,
// and the checksums of all bytes.
#ifndef TRAIN_CHECKPOINT_MANIFEST_H_
#define TRAIN_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "train/checkpoint/element_range.h"

namespace mtf::train {

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr int64_t kMostManifestBytes = 1'000'000'000;

// A safetensors file of the checkpoint.
struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
  uint32_t beginning_checksum = 0;  // of the bytes before the first tensor
};

// A shard of a variable: the tensor with the name of the variable in a file.
struct ManifestShard {
  int file = 0;  // index in Manifest::files
  ElementRanges ranges;
  std::vector<uint32_t> checksums;  // CRC-32C of each block of its bytes
};

struct ManifestVariable {
  std::string name;
  VariableKind kind = VariableKind::kParameter;
  DType dtype = kFloat32;
  Shape shape;
  std::vector<ManifestShard> shards;  // without empty ones

  int64_t bytes() const { return shape.num_elements() * DTypeSize(dtype); }
};

struct Manifest {
  std::string save_id;  // the same in all files of one Save, and in no other
  int64_t step = 0;
  uint32_t seed = 0;
  std::string mesh, program, library_version;
  std::optional<double> metric;
  std::map<std::string, std::string> extra;
  // The bytes of a shard that have one checksum, a multiple of 8.
  int64_t block_bytes = 1 << 20;
  std::vector<ManifestFile> files;
  std::vector<ManifestVariable> variables;
};

// The checksums of blocks of `block_bytes` bytes.
std::vector<uint32_t> BlockChecksums(absl::string_view bytes,
                                     int64_t block_bytes);

// The text of a manifest. It begins with the checksum of the rest.
std::string ManifestText(const Manifest& manifest);

// Whether the shards of each variable must cover it.
enum class Coverage : uint8_t {
  kAll,   // the manifest of a checkpoint
  kPart,  // what one process has written
};

// The inverse of ManifestText. kDataLoss for a wrong checksum, and for anything
// that ManifestText does not write: unknown or missing fields, shards that
// overlap, leave a gap or lie outside of their variable, two shards of a
// variable in one file, names of files with a slash. The message does not name
// the file.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       Coverage coverage);

// Adds the files and shards of `part`, whose variables are a subset of those of
// `manifest`, or new ones.
void MergeManifest(const Manifest& part, Manifest& manifest);

// Checks that the shards of each variable cover it without overlap.
absl::Status CheckCoverage(const Manifest& manifest);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_MANIFEST_H_
