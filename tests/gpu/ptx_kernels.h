#pragma once

#include "compiler/artifact.h"

namespace tilewright::test {

// Kernels written by hand, with the parameters that the compiler gives its own.

/// out[r, c] = alpha · x[r, c] · y[r] + n; a program for a row and 128 columns.
/// scale_rows(x: f32 matrix, y: f32 vector, out: f32 matrix, n: index, alpha: float)
Artifact scaleRowsArtifact();

/// out[a + 100 b + 10000 c] += 1 for the programs a, b, c < the three indices.
/// count_programs(out: i32 vector, a, b, c: index)
Artifact countProgramsArtifact();

/// out[i] = 25599 - i for i < 25600, by way of 100 KiB of dynamic shared memory, by one program.
/// reverse(out: f32 vector)
Artifact reverseArtifact();

/// Runs for so many nanoseconds: wait(nanoseconds: index)
Artifact waitArtifact();

/// Writes where nobody may: spoil(address: index)
Artifact spoilArtifact();

/// out[r, c] = x[r, c], and 0 beyond x, for all of the 8x32 boxes that x lies in, by way of TMA on compute
/// capability 9.0, by a persistent kernel. copy_boxes(x: f32 matrix, out: f32 matrix of whole boxes)
Artifact copyBoxesArtifact();

/// seen[rank of a cluster of two] += 1 + its first CTA's multiprocessor, by clusters that stay for 50 µs, on
/// compute capability 9.0. note_ranks(seen: i32 vector, programs: index)
Artifact noteRanksArtifact();

/// Does nothing: nop(4 f32 matrices, 2 f32 vectors, 2 indices, 2 floats)
Artifact nopArtifact();

} // namespace tilewright::test
