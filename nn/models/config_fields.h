// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_CONFIG_FIELDS_H_
#define NN_MODELS_CONFIG_FIELDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::nn {

// The fields of a config.json, as published next to the weights of a model.
// Readers of models ask for the fields they know; the first wrong one is kept
// as status(), so that a reader is a list of assignments:
//
//   MTF_ASSIGN_OR_RETURN(ConfigFields fields, ConfigFields::Parse(text));
//   config.n_layer = fields.Size("n_layer");
//   config.layer_norm_epsilon = fields.Epsilon("layer_norm_epsilon", 1e-5);
//   fields.Require("scale_attn_weights", "true");
//   MTF_RETURN_IF_ERROR(fields.status());
//
// A field that is null counts as absent, unless asked for. Fields of inner
// objects and lists have dots in their names: "rope_scaling.factor",
// "depths.0".
class ConfigFields {
 public:
  static constexpr int64_t kMostLayers = 10'000;

  // kInvalidArgument if `text` is not a JSON object, is longer than 1 MiB, or
  // is nested more than 16 deep.
  static absl::StatusOr<ConfigFields> Parse(absl::string_view text);

  // OK, or kInvalidArgument for the first field that was absent without a
  // default, or had a wrong value.
  const absl::Status& status() const { return status_; }

  bool Has(absl::string_view name) const;
  // Whether the field is present as null.
  bool IsNull(absl::string_view name) const;
  // A size: an integer from 1 to 2^31 - 1. Without a default it must be
  // present.
  int64_t Size(absl::string_view name);
  int64_t Size(absl::string_view name, int64_t absent);
  // A number of layers: a size of at most kMostLayers, because each becomes
  // operations of the graph.
  int64_t Layers(absl::string_view name);
  int64_t Layers(absl::string_view name, int64_t absent);
  // An integer from -2^31 to 2^31 - 1.
  int64_t Integer(absl::string_view name, int64_t absent);
  // A number. Without a default it must be present.
  double Number(absl::string_view name);
  double Number(absl::string_view name, double absent);
  // The epsilon of a norm: a number that is positive and finite in f32.
  double Epsilon(absl::string_view name, double absent);
  bool Flag(absl::string_view name, bool absent);
  std::string Text(absl::string_view name, absl::string_view absent);
  // Sets the text of a field that is absent or null.
  void SetDefault(absl::string_view name, absl::string_view text);
  // The sizes "<name>.0", "<name>.1", ...; a list has at least one.
  std::vector<int64_t> Sizes(absl::string_view name,
                             const std::vector<int64_t>& absent);

  // An error if the field is present with another value than `only`, the text
  // of the only value that a model here supports: "true", "0", "gelu".
  void Require(absl::string_view name, absl::string_view only);
  // The error of Fail() if the field is present and not null.
  void RejectPresent(absl::string_view name, absl::string_view problem,
                     absl::string_view help);
  // An error if an entry of the object `name` is an object itself.
  void RejectObjectsIn(absl::string_view name);
  // An error, with the nearest known name, for the first field that no function
  // above was asked for, except "model_type". For configs of our own, whose
  // fields are all known.
  void RejectUnknown();
  // Records `problem`, with `help`, as the error of a field.
  void Fail(absl::string_view name, absl::string_view problem,
            absl::string_view help = "");

 private:
  // The first is null.
  using Value = std::variant<std::monostate, bool, double, std::string>;
  const Value* Find(absl::string_view name) const;
  // An error if the field is a list or an object.
  void RejectInner(absl::string_view name, absl::string_view kind);
  template <class T>
  const T* Get(absl::string_view name, absl::string_view kind);

  std::map<std::string, Value, std::less<>> values_;
  // The names of lists with their numbers of entries, and of objects with -1.
  std::map<std::string, int64_t, std::less<>> nested_;
  mutable std::set<std::string, std::less<>> asked_;
  absl::Status status_;
};

// `config`, the text of a config.json ("": {}), whose "model_type" is `type`
// unless it has one. Errors are those of ConfigFields::Parse.
absl::StatusOr<std::string> ConfigWithType(absl::string_view config,
                                           absl::string_view type);

}  // namespace mtf::nn

#endif  // NN_MODELS_CONFIG_FIELDS_H_
