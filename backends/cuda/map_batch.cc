// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/map_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/find_map_batches.h"
#include "backends/cuda/group_wiring.h"
#include "backends/cuda/kernel_text.h"
#include "backends/cuda/kernel_writer.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
// Packs of a thread: enough to have several reads under way.
constexpr int kShares = 4;

// What a section is to the kernel: the text of its body and its pointers.
struct Section {
  std::string text;
  std::vector<void*> pointers;
  int64_t elements = 0;
  int pack = 1;
  int64_t blocks() const {
    const int64_t stretch = int64_t{kThreads} * kShares * pack;
    return (elements + stretch - 1) / stretch;
  }
};

bool IsNumber(const BoundValue& value, int64_t elements) {
  return value.elements() == 1 && elements != 1;
}

// Neighbouring elements that a thread takes at once.
int PackOf(const std::vector<Binding>& members, const GroupWiring& wiring,
           int64_t elements) {
  int64_t size = 2;
  uintptr_t addresses = 0;
  const auto see = [&](const BoundValue& value) {
    if (IsNumber(value, elements)) return;
    size = std::max(size, DTypeSize(value.dtype()));
    addresses |= reinterpret_cast<uintptr_t>(value.data);
  };
  for (const BoundValue& input : wiring.inputs) see(input);
  for (size_t i = 0; i < members.size(); ++i) {
    if (wiring.stored[i]) see(members[i].results[0]);
  }
  return addresses % 16 == 0 ? static_cast<int>(16 / size) : 1;
}

// The body takes `at` (pointers), `elements` and `first`, the first element of
// the block.
Section WriteSection(const std::vector<Binding>& members,
                     const GroupWiring& wiring, RowText& rows) {
  Section section;
  section.elements = members[0].results[0].elements();
  section.pack = PackOf(members, wiring, section.elements);
  const int pack = section.pack;
  std::string& text = section.text;
  std::string loads, values, stores, single_loads, single_stores;
  for (size_t i = 0; i < wiring.inputs.size(); ++i) {
    const BoundValue& input = wiring.inputs[i];
    const absl::string_view type = StorageType(input.dtype());
    const absl::string_view reg = RegisterType(input.dtype());
    absl::StrAppend(&text, "      const ", type, "* in", i, " = (const ", type,
                    "*)at[", section.pointers.size(), "];\n");
    section.pointers.push_back(input.data);
    if (IsNumber(input, section.elements)) {
      absl::StrAppend(&text, "      const ", reg, " x", i, " = Value(*in", i,
                      ");\n");
      continue;
    }
    absl::StrAppend(&loads, "        const Pack<", type, ", ", pack, "> pack",
                    i, " = *(const Pack<", type, ", ", pack, ">*)(in", i,
                    " + e);\n");
    absl::StrAppend(&values, "          const ", reg, " x", i, " = Value(pack",
                    i, ".at[j]);\n");
    absl::StrAppend(&single_loads, "          const ", reg, " x", i,
                    " = Value(in", i, "[e + j]);\n");
  }
  std::string steps_text, declarations;
  for (size_t i = 0; i < members.size(); ++i) {
    std::vector<std::string> names;
    std::vector<DType> dtypes;
    for (const GroupWiring::Source& source : wiring.sources[i]) {
      const bool made = source.member >= 0;
      names.push_back(
          absl::StrCat(made ? "m" : "x", made ? source.member : source.input));
      dtypes.push_back(made ? members[source.member].results[0].dtype()
                            : wiring.inputs[source.input].dtype());
    }
    const StepText steps =
        WriteSteps(members[i].instruction().expression, names, dtypes,
                   absl::StrCat("s", i, "_"), "          ", rows,
                   [](const std::string&) -> std::string {
                     MTF_CHECK(false) << "a batch has no places";
                     return "";
                   });
    const BoundValue& result = members[i].results[0];
    const absl::string_view type = StorageType(result.dtype());
    absl::StrAppend(&steps_text, steps.statements, "          const ",
                    RegisterType(result.dtype()), " m", i, " = ", steps.result,
                    ";\n");
    if (!wiring.stored[i]) {
      absl::StrAppend(&steps_text, "          (void)m", i, ";\n");
      continue;
    }
    absl::StrAppend(&text, "      ", type, "* out", i, " = (", type, "*)at[",
                    section.pointers.size(), "];\n");
    section.pointers.push_back(result.data);
    absl::StrAppend(&declarations, "        Pack<", type, ", ", pack, "> to", i,
                    ";\n");
    absl::StrAppend(&steps_text, "          Put(TO", i, ", m", i, ");\n");
    absl::StrAppend(&stores, "        *(Pack<", type, ", ", pack, ">*)(out", i,
                    " + e) = to", i, ";\n");
  }
  // The same steps twice: whole packs, and the elements of the last one.
  std::string whole = steps_text, single = steps_text;
  for (size_t i = members.size(); i-- > 0;) {
    const std::string mark = absl::StrCat("TO", i, ",");
    const auto replace = [&](std::string& in, const std::string& by) {
      const size_t place = in.find(mark);
      if (place != std::string::npos) in.replace(place, mark.size(), by);
    };
    replace(whole, absl::StrCat("to", i, ".at[j],"));
    replace(single, absl::StrCat("out", i, "[e + j],"));
  }
  absl::StrAppend(
      &text, "#pragma unroll\n      for (int share = 0; share < ", kShares,
      "; ++share) {\n        const i64 e = first + ((i64)share * ", kThreads,
      " + threadIdx.x) * ", pack, ";\n        if (e + ", pack,
      " <= elements) {\n", loads, declarations,
      "#pragma unroll\n        for (int j = 0; j < ", pack, "; ++j) {\n",
      values, whole, "        }\n", stores, "        } else {\n",
      "        for (int j = 0; e + j < elements; ++j) {\n", single_loads,
      single, "        }\n        }\n      }\n");
  return section;
}

}  // namespace

std::optional<MapBatchSource> WriteMapBatch(absl::Span<const Binding> members) {
  std::vector<int> batch;
  for (const Binding& member : members) batch.push_back(member.index);
  const std::vector<std::vector<int>> sections =
      SectionsOf(*members[0].program, batch);
  // No section may write where another one reads or writes.
  const std::optional<GroupWiring> all = GroupWiring::Of(members);
  if (!all.has_value() || !all->StoresAreSafe(members)) return std::nullopt;
  RowText rows;
  MapBatchSource written;
  absl::flat_hash_map<std::string, int> kinds;
  std::vector<std::string> bodies;
  std::vector<Section> texts;
  std::vector<int> kind_of;
  absl::flat_hash_map<const void*, int> written_by;
  for (const std::vector<int>& places : sections) {
    std::vector<Binding> own;
    for (int place : places) own.push_back(members[place]);
    // Who reads a result is asked of the whole batch: sections read nothing of
    // each other, so what is stored for one is stored for all.
    std::optional<GroupWiring> wiring = GroupWiring::Of(own);
    if (!wiring.has_value()) return std::nullopt;
    // An input that another section overwrites in its place, place by place,
    // would be read too late.
    for (size_t i = 0; i < own.size(); ++i) {
      if (wiring->stored[i]) {
        written_by.emplace(own[i].results[0].data,
                           static_cast<int>(texts.size()));
      }
    }
    Section section = WriteSection(own, *wiring, rows);
    const auto [it, is_new] =
        kinds.emplace(section.text, static_cast<int>(bodies.size()));
    if (is_new) bodies.push_back(section.text);
    kind_of.push_back(it->second);
    texts.push_back(std::move(section));
  }
  for (size_t s = 0; s < texts.size(); ++s) {
    for (void* pointer : texts[s].pointers) {
      const auto writer = written_by.find(pointer);
      if (writer != written_by.end() && writer->second != static_cast<int>(s)) {
        return std::nullopt;
      }
    }
  }
  size_t most_pointers = 0;
  for (const Section& section : texts) {
    most_pointers = std::max(most_pointers, section.pointers.size());
  }
  // first block, kind, elements, pointers
  const size_t record = 3 + most_pointers;
  int64_t blocks = 0;
  int64_t used = 0;
  for (size_t s = 0; s < texts.size(); ++s) {
    const Section& section = texts[s];
    if (section.elements == 0) continue;
    ++used;
    written.table.push_back(blocks);
    written.table.push_back(kind_of[s]);
    written.table.push_back(section.elements);
    for (size_t i = 0; i < most_pointers; ++i) {
      written.table.push_back(
          i < section.pointers.size()
              ? static_cast<int64_t>(
                    reinterpret_cast<intptr_t>(section.pointers[i]))
              : 0);
    }
    blocks += section.blocks();
  }
  if (used == 0) return std::nullopt;
  written.shape = {.blocks = blocks, .threads = kThreads};
  written.source.name = "map_batch";
  std::string& text = written.source.text;
  absl::StrAppend(
      &text, BasicText(), rows.text(),
      "extern \"C\" __global__ void __launch_bounds__(", kThreads,
      ")\nmap_batch(const i64* table) {\n"
      "  // The last section that begins at this block or before it.\n"
      "  int low = 0, high = ",
      used,
      ";\n"
      "  while (high - low > 1) {\n"
      "    const int middle = (low + high) / 2;\n"
      "    if (table[(i64)middle * ",
      record,
      "] <= (i64)blockIdx.x) {\n      low = middle;\n    } else {\n      high "
      "= middle;\n    }\n  }\n"
      "  const i64* section = table + (i64)low * ",
      record,
      ";\n"
      "  const i64 elements = section[2];\n"
      "  const i64* at = section + 3;\n"
      "  const i64 block = (i64)blockIdx.x - section[0];\n"
      "  switch (section[1]) {\n");
  for (size_t kind = 0; kind < bodies.size(); ++kind) {
    int pack = 1;
    for (size_t s = 0; s < texts.size(); ++s) {
      if (kind_of[s] == static_cast<int>(kind)) pack = texts[s].pack;
    }
    absl::StrAppend(&text, "    case ", kind,
                    ": {\n      const i64 first = block * ",
                    int64_t{kThreads} * kShares * pack, ";\n", bodies[kind],
                    "      break;\n    }\n");
  }
  text += "  }\n}\n";
  return written;
}

namespace {

// A launch whose table lives as long as it.
class MapBatchKernel : public LaunchSequence {
 public:
  MapBatchKernel(Runtime& runtime, Launch launch, void* table)
      : LaunchSequence(runtime, {std::move(launch)}),
        runtime_(runtime),
        table_(table) {}
  ~MapBatchKernel() override { runtime_.Free(table_); }

 private:
  Runtime& runtime_;
  void* table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMapBatch(
    Runtime& runtime, absl::Span<const Binding> members) {
  const std::optional<MapBatchSource> written = WriteMapBatch(members);
  if (!written.has_value()) return nullptr;
  MTF_ASSIGN_OR_RETURN(Function * function, runtime.Compile(written->source));
  const int64_t bytes =
      static_cast<int64_t>(written->table.size() * sizeof(int64_t));
  MTF_ASSIGN_OR_RETURN(void* table, runtime.Allocate(bytes));
  runtime.CopyToDevice(table, written->table.data(), bytes);
  Launch launch{function, written->shape, {reinterpret_cast<uintptr_t>(table)}};
  return std::make_unique<MapBatchKernel>(runtime, std::move(launch), table);
}

}  // namespace mtf::cuda
