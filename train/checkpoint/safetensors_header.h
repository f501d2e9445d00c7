// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file, read and written. The file is: the number
// of bytes of the header (8 bytes, little endian), the header in JSON,
//
//   {"__metadata__": {"format": "pt"},
//    "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//
// and the elements of the tensors, row-major and little endian, without gaps.
// Format: https://github.com/huggingface/safetensors
#ifndef TRAIN_CHECKPOINT_SAFETENSORS_HEADER_H_
#define TRAIN_CHECKPOINT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dtype.h"

namespace mtf::train {

// The most bytes of a header that readers accept.
inline constexpr int64_t kMostSafetensorsHeaderBytes = 100'000'000;

// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;      // "BF16"
  std::optional<DType> dtype;  // empty if mtf has no such dtype ("F64")
  std::vector<int64_t> sizes;
  int64_t offset = 0;  // of its first byte in the file
  int64_t bytes = 0;

  // "BF16[256, 20]"
  std::string Describe() const;
};

// A tensor to write.
struct SafetensorsSpec {
  std::string name;
  DType dtype = kFloat32;
  std::vector<int64_t> sizes;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their offsets
  std::map<std::string, std::string> metadata;
  int64_t file_bytes = 0;
  int64_t data_begin = 0;  // offset of the first tensor
};

// The name of a dtype of mtf in the format: "F32".
absl::string_view SafetensorsDTypeName(DType dtype);

// Parses the text of a header of a file of `file_bytes` bytes and checks every
// rule of the format: names and metadata are unique strings, dtypes are known,
// sizes are not negative and their product matches the bytes, and the tensors
// fill the rest of the file exactly. kDataLoss for a broken rule; the message
// does not name the file.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t file_bytes);

// The beginning of a file with these tensors in this order, up to the first
// byte of the first: a pure function, so that several ranks may compute it and
// write their ranges. `header` receives the offsets. kInvalidArgument for a
// repeated name, one that is not UTF-8 or is "__metadata__", a size below 0 or
// too many bytes.
absl::StatusOr<std::string> MakeSafetensorsHeader(
    const std::vector<SafetensorsSpec>& specs,
    const std::map<std::string, std::string>& metadata,
    SafetensorsHeader* header);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_SAFETENSORS_HEADER_H_
