// SPDX-License-Identifier: Apache-2.0
#ifndef NN_ATTENTION_ROTARY_H_
#define NN_ATTENTION_ROTARY_H_

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// Which elements of d_kv are rotated together, of n that are rotated.
enum class RotaryPairs : uint8_t {
  kHalves,       // i and i + n / 2, as in Llama and GPT-NeoX
  kInterleaved,  // 2 * i and 2 * i + 1, as in RoFormer and GPT-J
};

// How frequencies change for sequences that are longer than those of training.
enum class RotaryScalingRule : uint8_t {
  kNone,
  // Divides all by the factor: position interpolation (Chen et al., 2023).
  kLinear,
  // Multiplies the base by factor^(n / (n - 2)), which divides the lowest
  // frequency by the factor and keeps the highest (NTK-aware scaling, 2023).
  kNtk,
  // Divides frequencies of less than `low_frequency_factor` periods in
  // `original_length` by the factor, keeps those of more than
  // `high_frequency_factor`, and interpolates between them (Llama 3.1, 2024).
  kLlama3,
  // The same with the limits `beta_slow` and `beta_fast`, linear in the index
  // of the pair, and with an attention factor (YaRN, Peng et al., 2023).
  kYarn,
};

struct RotaryScaling {
  RotaryScalingRule rule = RotaryScalingRule::kNone;
  double factor = 1;              // new length / original length
  double original_length = 8192;  // of training, for kLlama3 and kYarn
  double low_frequency_factor = 1, high_frequency_factor = 4;  // kLlama3
  double beta_slow = 1, beta_fast = 32;                        // kYarn
  // Of kYarn: multiplies queries and keys. Empty: 0.1 * log(factor) + 1.
  std::optional<double> attention_factor = std::nullopt;
};

struct RotaryOptions {
  double base = 10000;
  // Of the elements of d_kv, from the first, those that are rotated.
  double fraction = 1;
  RotaryPairs pairs = RotaryPairs::kHalves;
  RotaryScaling scaling = {};
  // The positions along `length`, integers with any dimensions of `x` but d_kv,
  // such as those in documents that share a row. Empty: 0, 1, ...
  Tensor positions = Tensor();
  // An integer, or one for each of some dimensions of `x`, added to positions:
  // the position of the first element when decoding.
  Tensor offset = Tensor();
  std::string name = "rotary";
};

// Rotary position embedding (Su et al., 2021) of queries or keys: rotates pair
// i of the elements along `d_kv` by position * frequency[i], so that products
// of queries and keys depend on differences of positions:
//
//   (a, b) -> (a * cos - b * sin, b * cos + a * sin)
//
//   // [batch, length, heads, d_kv] -> the same shape and dtype
//   q = nn::RotaryEmbedding(q, length, d_kv);
//   k = nn::RotaryEmbedding(k, memory_length, d_kv);
//
// Computed in f32. With `length` sharded there is no communication.
//
// Records kInvalidArgument in the graph if `x` is not a float, or lacks a
// dimension or has it in another size; if `fraction` is outside (0, 1] or gives
// an odd number of elements; if the base is not greater than 1, or an option of
// the scaling is not positive; or if positions or offset are not integers, have
// d_kv or a dimension that `x` lacks, or belong to another graph. Returns an
// empty Tensor if `x` is empty.
Tensor RotaryEmbedding(
    Tensor x, Dimension length, Dimension d_kv, RotaryOptions options = {},
    std::source_location location = std::source_location::current());

// The frequencies of the pairs of `rotated` elements, with valid options.
std::vector<double> RotaryFrequencies(int64_t rotated,
                                      const RotaryOptions& options);

}  // namespace mtf::nn

#endif  // NN_ATTENTION_ROTARY_H_
