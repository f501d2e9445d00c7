// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_WEIGHTS_WEIGHT_FILES_H_
#define TRAIN_WEIGHTS_WEIGHT_FILES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dtype.h"
#include "mtf/host_tensor.h"
#include "mtf/shape.h"
#include "nn/models/weight_map.h"
#include "train/checkpoint/element_range.h"
#include "train/checkpoint/safetensors_set.h"

namespace mtf::train {

// Published weights that are open for reading, with the map of their model.
// Thread-safe.
class WeightFiles {
 public:
  // `path` is a file, an index or a folder, as of SafetensorsSet::Open.
  static absl::StatusOr<std::unique_ptr<WeightFiles>> Open(
      const std::string& path, const nn::WeightMap& map);

  // The tensor of a rule, by its name with or without the prefix, or by an
  // older name; null if there is none.
  const SafetensorsEntry* Find(const std::string& tensor) const;

  // Checks that all tensors of `weights`, and the copies that are there, have
  // floats in the sizes of their rule. kNotFound if a tensor is missing.
  absl::Status Check(const nn::ParameterWeights& weights,
                     const std::string& parameter) const;

  // Reads the elements `wanted` of a parameter of `shape`, as f32: these
  // elements of the files only. `weights` has been checked.
  absl::StatusOr<HostTensor> Read(const nn::ParameterWeights& weights,
                                  const Shape& shape,
                                  const ElementRanges& wanted) const;

  // The same into the floats `to` of `dtype`, as many as are wanted. They are
  // rounded to `master` first: a parameter is the rounded value of its master
  // copy. Needs a few MiB of memory.
  absl::Status ReadInto(const nn::ParameterWeights& weights, const Shape& shape,
                        const ElementRanges& wanted, DType master, DType dtype,
                        void* to) const;

  // Checks that the copies of the tensor of `weights` that the files have are
  // equal to it in the elements `wanted`. kInvalidArgument otherwise.
  absl::Status CheckCopies(const nn::ParameterWeights& weights,
                           const Shape& shape,
                           const ElementRanges& wanted) const;

  // The tensors that none of `used` reads, as themselves or as copies, and that
  // the map does not ignore.
  std::vector<std::string> Unused(
      const std::vector<nn::ParameterWeights>& used) const;

 private:
  WeightFiles() = default;
  // Checks sizes and dtype of `tensor`, which is there.
  absl::Status CheckTensor(const nn::ParameterWeights& weights,
                           const std::string& tensor,
                           const std::string& parameter) const;

  std::string path_;
  nn::WeightMap map_;
  std::unique_ptr<SafetensorsSet> set_;
  // By the name that the tensor has now: its name in the file.
  std::map<std::string, std::string> name_in_file_;
};

// The f32 values of `count` floats of `dtype`.
std::vector<float> FloatsOf(const void* data, DType dtype, int64_t count);
// The f32 elements `values` as a tensor of `dtype`.
HostTensor TensorOfFloats(const Shape& shape, DType dtype,
                          const std::vector<float>& values);

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_WEIGHT_FILES_H_
