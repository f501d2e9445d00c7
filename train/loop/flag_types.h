// SPDX-License-Identifier: Apache-2.0
//
// Flag types with a range. Parsing rejects values outside of it with a message
// that states the range.
#ifndef TRAIN_LOOP_FLAG_TYPES_H_
#define TRAIN_LOOP_FLAG_TYPES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "mtf/precision.h"

namespace mtf::train {

// A count of something: a whole number from 1 to 2147483647.
//
//   ABSL_FLAG(train::Size, layers, 2, "blocks of the model");
//   for (int i = 0; i < absl::GetFlag(FLAGS_layers); ++i) ...
struct Size {
  Size(int64_t value = 1) : value(value) {}  // NOLINT: implicit on purpose
  operator int64_t() const { return value; }
  int64_t value;
};

// A count that may be 0: a whole number from 0 to 2147483647.
struct Count {
  Count(int64_t value = 0) : value(value) {}  // NOLINT: implicit on purpose
  operator int64_t() const { return value; }
  int64_t value;
};

// A number of layers: a whole number from 1 to 10000. The graph contains every
// layer, and each takes some milliseconds to lower, so that without this limit
// a typo would look like a hanging program.
struct Depth {
  Depth(int64_t value = 1) : value(value) {}  // NOLINT: implicit on purpose
  operator int64_t() const { return value; }
  int64_t value;
};

// The seed of a run: a whole number from 0 to 4294967295.
struct Seed {
  Seed(uint32_t value = 0) : value(value) {}  // NOLINT: implicit on purpose
  operator uint32_t() const { return value; }
  uint32_t value;
};

// A finite number above 0 and at most 1000: a learning rate, a temperature.
struct Rate {
  Rate(double value = 1) : value(value) {}  // NOLINT: implicit on purpose
  operator double() const { return value; }
  double value;
};

// A number from 0 to below 1: a dropout probability.
struct Fraction {
  Fraction(double value = 0) : value(value) {}  // NOLINT: implicit on purpose
  operator double() const { return value; }
  double value;
};

// A time limit in seconds: a number from 0 (no limit) to 1e9, or "default".
struct TimeLimit {
  TimeLimit(double seconds = -1) : seconds(seconds) {}  // NOLINT: implicit
  double seconds;                                       // negative: the default
};

// The output format of --explain.
struct ExplainFormat {
  enum Kind { kNone, kText, kFull, kJson, kHtml };
  ExplainFormat(Kind kind = kNone) : kind(kind) {}  // NOLINT: implicit
  operator Kind() const { return kind; }
  Kind kind;
};

// The dtypes of a model, the value of --precision; see mtf/precision_text.h.
//
//   PrecisionScope precision(graph, absl::GetFlag(FLAGS_precision));
struct ModelPrecision {
  ModelPrecision(Precision precision = {}) : precision(precision) {}  // NOLINT
  operator const Precision&() const { return precision; }
  Precision precision;
};

// Called by Abseil to parse and print a flag. On failure `error` is the allowed
// range.
bool AbslParseFlag(absl::string_view text, Size* flag, std::string* error);
bool AbslParseFlag(absl::string_view text, Count* flag, std::string* error);
bool AbslParseFlag(absl::string_view text, Depth* flag, std::string* error);
bool AbslParseFlag(absl::string_view text, Seed* flag, std::string* error);
bool AbslParseFlag(absl::string_view text, Rate* flag, std::string* error);
bool AbslParseFlag(absl::string_view text, Fraction* flag, std::string* error);
bool AbslParseFlag(absl::string_view text, TimeLimit* flag, std::string* error);
bool AbslParseFlag(absl::string_view text, ExplainFormat* flag,
                   std::string* error);
bool AbslParseFlag(absl::string_view text, ModelPrecision* flag,
                   std::string* error);
std::string AbslUnparseFlag(Size flag);
std::string AbslUnparseFlag(Count flag);
std::string AbslUnparseFlag(Depth flag);
std::string AbslUnparseFlag(Seed flag);
std::string AbslUnparseFlag(Rate flag);
std::string AbslUnparseFlag(Fraction flag);
std::string AbslUnparseFlag(TimeLimit flag);
std::string AbslUnparseFlag(ExplainFormat flag);
std::string AbslUnparseFlag(ModelPrecision flag);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_FLAG_TYPES_H_
