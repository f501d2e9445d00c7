// SPDX-License-Identifier: Apache-2.0
//
// Flags that several subcommands of mtf take, and their values.
#ifndef TOOLS_MTF_FLAGS_H_
#define TOOLS_MTF_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/mesh.h"
#include "nn/models/model_presets.h"
#include "planning/machine/machine.h"
#include "tools/models.h"

ABSL_DECLARE_FLAG(std::string, mesh);
ABSL_DECLARE_FLAG(std::string, output);
ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(std::string, config);

namespace mtf::tools {

// A number of bytes as machine files write it, "80GiB"
// (planning/machine/units.h); 0, written "", if none is given.
struct Bytes {
  int64_t value = 0;
};
bool AbslParseFlag(absl::string_view text, Bytes* flag, std::string* error);
std::string AbslUnparseFlag(Bytes flag);

// A time limit in seconds, at most 1e6; 0 means the default of the command.
struct Allowance {
  double seconds = 0;
};
bool AbslParseFlag(absl::string_view text, Allowance* flag, std::string* error);
std::string AbslUnparseFlag(Allowance flag);

// The flags that describe a model: --config, or --model, a GPT, and the sizes
// that differ from it; and the GPT that they describe.
std::vector<std::string> ModelFlags();
absl::StatusOr<GptSizes> ModelFromFlags();
// `sizes`, with those of flags that are given.
absl::StatusOr<GptSizes> SizesFromFlags(GptSizes sizes);
// "gpt3_175b with batch 8"
std::string ModelText();
// The first of these flags that is not at its default, "layers", or "".
std::string FirstModelFlag();

// The preset that --model names (nn/models/model_presets.h), unless --config is
// given.
std::optional<nn::ModelPreset> PresetFromFlags();

// --mesh; if it is not given, that of the preset of --model, if it has one;
// otherwise kInvalidArgument.
absl::StatusOr<Mesh> MeshFromFlags();
// --machine.
absl::StatusOr<Machine> MachineFromFlags();

// Writes to the file given by --output, or to standard output. Returns the
// errors of WritePlainFile.
absl::Status Write(absl::string_view text);

// The text of a file (mtf/read_file.h), called `what` in errors.
absl::StatusOr<std::string> ReadText(const std::string& path,
                                     absl::string_view what);

}  // namespace mtf::tools

#endif  // TOOLS_MTF_FLAGS_H_
