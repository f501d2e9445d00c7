// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_LOWERING_PROGRAM_EVERY_INSTRUCTION_H_
#define TESTS_LOWERING_PROGRAM_EVERY_INSTRUCTION_H_

namespace mtf::testing {

// Every instruction with all of its attributes, before any shard has extents.
inline constexpr char kEveryInstruction[] = R"(
mesh{data:2, model:2}
%tokens : i32[batch:8/data, length:6] = input tokens
%w : f32[vocab:10/model, d:4] = read_variable embedding/table
%c : f32[length:6] = constant {0, 0.1, -1.5, 1e+30, inf, -inf}
%u : f32[batch:8/data, d:4] = random uniform stream 3 per_step
%n : f32[batch:8/data, d:4] = random normal stream 4294967295
%one : f32[] = map [literal.f32(0.12345678901234568)]
%i : i32[length:6] = map [iota.i32(length)]
%x : f32[batch:8/data, length:6, d:4] unreduced{model} = gather(%w, %tokens) vocab
%x.sum : f32[batch:8/data, length:6, d:4] = reshard(%x)
%g : f32[batch:8/data, length:6, d:4] = map(%x.sum) gelu
%h : bf16[batch:8/data, length:6, d:4] = map(%g, %u, %one) [add($0, $1); mul($3, $2); cast.bf16($4)]
%m : f32[batch:8/data, length:6] = reduce(%g) max
%s : f32[d:4] unreduced{data} = reduce(%g) sum
%s.sum : f32[d:4] = all_reduce(%s) sum over{data}
%t : f32[length:6, d:4] unreduced{data} min = reduce(%g) min
%t.min : f32[length:6, d:4] = all_reduce(%t) min over{data}
%e : f32[batch:8/data, length:6] = einsum(%g, %n) sum{d}
%r : f32[batch:8/data, k:24] = reshape(%g)
%sl : f32[batch:8/data, k:5] = slice(%r) k begin 3
%p : f32[batch:8/data, k:9] = pad(%sl) k before 1 fill -0.5
%cc : f32[batch:8/data, k:14] = concat(%sl, %p) k
%tr : f32[halo-data:2/data, k:5] = take_rows(%sl) batch from{8 at 1} to 8 span 2 round 0 over{data}
%sr : f32[halo-data:2/data, k:5] = collective_permute(%tr) shift 1 over{data}
%pr : f32[halo-data:10/data, k:5] = place_rows(%sl, %sr) batch from{8 at 1} to 8 span 2 fill -0.5 over{data}
%wd : f32[batch:8/data, k:5, m:2] = windows(%pr) batch, m of halo-data
%fw : f32[batch:8/data, q:18] = fold_windows(%wd) k, m of q stride 4
%pw : f32[batch:8/data, k:31] = place_rows(%sl) k from{5 at -7} to 31 wrap
%pa : f32[batch:8/data, k:9] = place_rows(%fw) k from{9 at 2} to 5 stride 4 span 2 adds
%mk : f32[batch:8/data, k:14] = mask(%cc) batch, k fill 0
%sc : f32[vocab:10/model, d:4] unreduced{data} = scatter_add(%g, %tokens) vocab
%sc.sum : f32[vocab:10/model, d:4] = all_reduce(%sc) sum over{data}
%at : i32[batch:8/data] = constant {0, 1, 2, 3, 0, 1, 2, 3}
%at.ok : i32[batch:8/data] = check_index(%at) 2 of length:6
%ds : f32[batch:8/data, now:2, d:4] = dynamic_slice(%g, %at.ok) length
%us : f32[batch:8/data, length:6, d:4] = update_slice(%g, %ds, %at.ok) length
%cs : f32[batch:8/data, d:4] = scan(%n) sum d exclusive reverse
%bt : f32[batch:2/data, d:4] = reduce_blocks(%n) max batch
%ci : f32[batch:8/data, d:4] = scan(%n, %bt) max batch
%tv : f32[d:4, batch:2/data, k:3], %tp : i32[d:4, batch:2/data, k:3] = top_k(%n) batch
%tk : i32[batch:8/data, k:3] = top_k(%n) d
%tl : i32[batch:2/data, k:3, j:2] = top_k(%tv, %tp) d
%d : f32[d:4] unreduced{data} = reduce(%n) sum
%d.shard : f32[d:4/data] = reduce_scatter(%d) sum d over{data}
%d.all : f32[d:4] = all_gather(%d.shard) d over{data}
%d.own : f32[d:4/model] = all_slice(%d.all) d over{model}
%a : f32[batch:8, d:4/data] = all_to_all(%u) batch to d over{data}
%b : f32[batch:8, d:4/model] = collective_permute(%a) over{data, model}
%w.new : f32[vocab:10/model, d:4] = write_variable(%sc.sum) embedding/table
output(%e) loss
output(%h) h
)";

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_PROGRAM_EVERY_INSTRUCTION_H_
