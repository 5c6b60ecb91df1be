// What each verifier says: what it expected and what it found.
// RUN: tile-opt %s --split-input-file --verify-diagnostics

// -----
// expected-error@+1 {{a view's sizes are known at run time: expected '?' for each}}
func.func private @static_view(!tile.view<8x?xf32>)

// -----
// expected-error@+1 {{expected a view of rank 1 or 2, found rank 3}}
func.func private @rank_3(!tile.view<?x?x?xf32>)

// -----
// expected-error@+1 {{expected a view of f32, bf16, f16, i32 or i64, found 'f64'}}
func.func private @of_f64(!tile.view<?xf64>)

// -----
func.func @program_id() {
  // expected-error@+1 {{attribute 'axis' failed to satisfy constraint}}
  %0 = tile.program_id 3
  return
}

// -----
func.func @dim(%v: !tile.view<?xf32>) {
  // expected-error@+1 {{expected an axis of '!tile.view<?xf32>', found 1}}
  %0 = tile.dim %v, 1 : !tile.view<?xf32>
  return
}

// -----
func.func @narrow(%v: !tile.view<?xf32>, %n: index) {
  // expected-error@+1 {{expected an axis of '!tile.view<?xf32>', found 1}}
  %0 = tile.narrow %v, 1 to %n : !tile.view<?xf32>
  return
}

// -----
func.func @reinterpret(%v: !tile.view<?x?xbf16>) {
  // expected-error@+1 {{expected a result of rank 2, as '!tile.view<?x?xbf16>', found '!tile.view<?xf32>'}}
  %0 = tile.reinterpret %v : !tile.view<?x?xbf16> to !tile.view<?xf32>
  return
}

// -----
func.func @load_offsets(%v: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected 2 offsets into '!tile.view<?x?xf32>', found 1}}
  %0 = tile.load %v[%i] : !tile.view<?x?xf32> -> tensor<8x1xf32>
  return
}

// -----
func.func @load_element(%v: !tile.view<?xbf16>, %i: index) {
  // expected-error@+1 {{expected a tile of 'bf16', as '!tile.view<?xbf16>' holds, found 'tensor<8x1xf32>'}}
  %0 = tile.load %v[%i] : !tile.view<?xbf16> -> tensor<8x1xf32>
  return
}

// -----
func.func @load_vector(%v: !tile.view<?xf32>, %i: index) {
  // expected-error@+1 {{expected a block of a vector to have one row or one column, found 'tensor<8x8xf32>'}}
  %0 = tile.load %v[%i] : !tile.view<?xf32> -> tensor<8x8xf32>
  return
}

// -----
func.func @load_not_a_tile(%v: !tile.view<?xf32>, %i: index) {
  // expected-error@+1 {{result #0 must be a tile (a rank-2 tensor with static rows, static or ? columns, of f32, bf16, f16, i64, i32 or i1), but got 'tensor<8xf32>'}}
  %0 = tile.load %v[%i] : !tile.view<?xf32> -> tensor<8xf32>
  return
}

// -----
func.func @load_dynamic_rows(%v: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{result #0 must be a tile}}
  %0 = tile.load %v[%i, %i] : !tile.view<?x?xf32> -> tensor<?x8xf32>
  return
}

// -----
func.func @load_from_tile(%t: tensor<8x8xf32>, %i: index) {
  // expected-error@+1 {{operand #0 must be a view of memory, !tile.view<…>, but got 'tensor<8x8xf32>'}}
  %0 = tile.load %t[%i, %i] : tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----
func.func @load_long(%v: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected 'size' for a result with ? columns, found none}}
  %0 = tile.load %v[%i, %i] : !tile.view<?x?xf32> -> tensor<8x?xf32>
  return
}

// -----
func.func @load_static_with_size(%v: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected no 'size' where the result's width is known, found one}}
  %0 = tile.load %v[%i, %i] size %i : !tile.view<?x?xf32> -> tensor<8x8xf32>
  return
}

// -----
func.func @load_rows_subscripts(%v: !tile.view<?x?xf32>, %r: tensor<8x1xi32>) {
  // expected-error@+1 {{expected rows and a column offset as subscripts of '!tile.view<?x?xf32>', found rows only}}
  %0 = tile.load_rows %v[%r] : !tile.view<?x?xf32>, tensor<8x1xi32> -> tensor<8x8xf32>
  return
}

// -----
func.func @load_rows_of_vector(%v: !tile.view<?xf32>, %r: tensor<8x1xi32>, %i: index) {
  // expected-error@+1 {{expected rows only as subscripts of '!tile.view<?xf32>', found rows and a column offset}}
  %0 = tile.load_rows %v[%r, %i] : !tile.view<?xf32>, tensor<8x1xi32> -> tensor<8x1xf32>
  return
}

// -----
func.func @load_rows_wide_vector(%v: !tile.view<?xf32>, %r: tensor<8x1xi32>) {
  // expected-error@+1 {{expected rows of a vector to have one column, found 'tensor<8x8xf32>'}}
  %0 = tile.load_rows %v[%r] : !tile.view<?xf32>, tensor<8x1xi32> -> tensor<8x8xf32>
  return
}

// -----
func.func @load_rows_count(%v: !tile.view<?x?xf32>, %r: tensor<4x1xi32>, %i: index) {
  // expected-error@+1 {{expected one row number for each row of 'tensor<8x8xf32>', found 'tensor<4x1xi32>'}}
  %0 = tile.load_rows %v[%r, %i] : !tile.view<?x?xf32>, tensor<4x1xi32> -> tensor<8x8xf32>
  return
}

// -----
func.func @load_rows_index(%v: !tile.view<?x?xf32>, %r: tensor<8x1xi64>, %i: index) {
  // expected-error@+1 {{operand #1 must be a column of indices, tensor<Rx1xi32>, but got 'tensor<8x1xi64>'}}
  %0 = tile.load_rows %v[%r, %i] : !tile.view<?x?xf32>, tensor<8x1xi64> -> tensor<8x8xf32>
  return
}

// -----
func.func @load_elements_rank(%v: !tile.view<?xf32>, %r: tensor<8x1xi32>, %i: index) {
  // expected-error@+1 {{expected a view of rank 2, found '!tile.view<?xf32>'}}
  %0 = tile.load_elements %v[%i, %r] : !tile.view<?xf32>, tensor<8x1xi32> -> tensor<8x1xf32>
  return
}

// -----
func.func @load_elements_count(%v: !tile.view<?x?xf32>, %r: tensor<4x1xi32>, %i: index) {
  // expected-error@+1 {{expected one column number for each row of 'tensor<8x1xf32>', found 'tensor<4x1xi32>'}}
  %0 = tile.load_elements %v[%i, %r] : !tile.view<?x?xf32>, tensor<4x1xi32> -> tensor<8x1xf32>
  return
}

// -----
func.func @load_elements_column(%v: !tile.view<?x?xf32>, %r: tensor<8x1xi32>, %i: index) {
  // expected-error@+1 {{result #0 must be a tile of one column, tensor<Rx1xT>, but got 'tensor<8x2xf32>'}}
  %0 = tile.load_elements %v[%i, %r] : !tile.view<?x?xf32>, tensor<8x1xi32> -> tensor<8x2xf32>
  return
}

// -----
func.func @store_element(%v: !tile.view<?x?xbf16>, %t: tensor<8x8xf32>, %i: index) {
  // expected-error@+1 {{expected a tile of 'bf16', as '!tile.view<?x?xbf16>' holds, found 'tensor<8x8xf32>'}}
  tile.store %t, %v[%i, %i] : tensor<8x8xf32>, !tile.view<?x?xbf16>
  return
}

// -----
func.func @store_rows_count(%v: !tile.view<?x?xf32>, %t: tensor<8x8xf32>, %r: tensor<1x1xi32>, %i: index) {
  // expected-error@+1 {{expected one row number for each row of 'tensor<8x8xf32>', found 'tensor<1x1xi32>'}}
  tile.store_rows %t, %v[%r, %i] : tensor<8x8xf32>, !tile.view<?x?xf32>, tensor<1x1xi32>
  return
}

// -----
func.func @reduce_add_element(%v: !tile.view<?x?xbf16>, %t: tensor<8x8xbf16>, %i: index) {
  // expected-error@+1 {{operand #0 must be a tile of f32, i32 or i64, but got 'tensor<8x8xbf16>'}}
  tile.reduce_add %t, %v[%i, %i] : tensor<8x8xbf16>, !tile.view<?x?xbf16>
  return
}

// -----
func.func @contract_rank(%v: !tile.view<?xf32>, %w: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected views of rank 2 of f32, bf16 or f16, found '!tile.view<?xf32>'}}
  %0 = tile.contract %v[%i] contracting 0, %w[%i] contracting 1 : !tile.view<?xf32>, !tile.view<?x?xf32> -> tensor<8x8xf32>
  return
}

// -----
func.func @contract_integers(%v: !tile.view<?x?xi32>, %i: index) {
  // expected-error@+1 {{expected views of rank 2 of f32, bf16 or f16, found '!tile.view<?x?xi32>'}}
  %0 = tile.contract %v[%i] contracting 0, %v[%i] contracting 1 : !tile.view<?x?xi32>, !tile.view<?x?xi32> -> tensor<8x8xf32>
  return
}

// -----
func.func @contract_long(%v: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected a static tile as the result, found 'tensor<8x?xf32>'}}
  %0 = tile.contract %v[%i] contracting 0, %v[%i] contracting 1 : !tile.view<?x?xf32>, !tile.view<?x?xf32> -> tensor<8x?xf32>
  return
}

// -----
func.func @contract_axis(%v: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{attribute 'aAxis' failed to satisfy constraint}}
  %0 = tile.contract %v[%i] contracting 2, %v[%i] contracting 1 : !tile.view<?x?xf32>, !tile.view<?x?xf32> -> tensor<8x8xf32>
  return
}

// -----
func.func @contract_part(%v: !tile.view<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected which part of 3}}
  %0 = "tile.contract"(%v, %i, %v, %i) {aAxis = 0 : i64, bAxis = 1 : i64, parts = 3 : i64} : (!tile.view<?x?xf32>, index, !tile.view<?x?xf32>, index) -> tensor<8x8xf32>
  return
}

// -----
func.func @dot_shapes(%a: tensor<8x16xf32>) {
  // expected-error@+1 {{expected static tiles MxK and KxN, found 'tensor<8x16xf32>' and 'tensor<8x16xf32>'}}
  %0 = tile.dot %a, %a : tensor<8x16xf32>, tensor<8x16xf32>
  return
}

// -----
func.func @dot_rank(%a: tensor<8xf32>) {
  // expected-error@+1 {{'tile.dot' op expected a tile, found 'tensor<8xf32>'}}
  %0 = tile.dot %a, %a : tensor<8xf32>, tensor<8xf32>
  return
}

// -----
func.func @iota_shape(%i: index) {
  // expected-error@+1 {{expected tensor<1xCxi32> along 1, found 'tensor<8x1xi32>'}}
  %0 = tile.iota %i along 1 : tensor<8x1xi32>
  return
}

// -----
func.func @iota_element(%i: index) {
  // expected-error@+1 {{expected tensor<Rx1xi32> along 0, found 'tensor<8x1xf32>'}}
  %0 = tile.iota %i along 0 : tensor<8x1xf32>
  return
}

// -----
func.func @iota_size(%i: index) {
  // expected-error@+1 {{expected 'size' for a result with ? columns, found none}}
  %0 = tile.iota %i along 1 : tensor<1x?xi32>
  return
}

// -----
func.func @broadcast_shrinks(%t: tensor<8x4xf32>) {
  // expected-error@+1 {{expected dimensions of size 1 to grow and nothing else to change, found 'tensor<8x4xf32>' to 'tensor<8x8xf32>'}}
  %0 = tile.broadcast %t : tensor<8x4xf32> -> tensor<8x8xf32>
  return
}

// -----
func.func @broadcast_size(%t: tensor<8x1xf32>) {
  // expected-error@+1 {{expected 'size' for a result with ? columns, found none}}
  %0 = tile.broadcast %t : tensor<8x1xf32> -> tensor<8x?xf32>
  return
}

// -----
func.func @broadcast_second_size(%t: tensor<1x?xf32>, %n: index) {
  // expected-error@+1 {{expected no 'size' where the result's width is known, found one}}
  %0 = tile.broadcast %t size %n : tensor<1x?xf32> -> tensor<8x?xf32>
  return
}

// -----
func.func @transpose_long(%t: tensor<8x?xf32>) {
  // expected-error@+1 {{'tile.transpose' op expected a static tile, found 'tensor<8x?xf32>'}}
  %0 = tile.transpose %t : tensor<8x?xf32>
  return
}

// -----
func.func @splat_types(%i: index) {
  // expected-error@+1 {{expected f32 to f32, i1 to i1 or index to i32 or i64, found 'index' to 'tensor<1x1xf32>'}}
  %0 = tile.splat %i : index -> tensor<1x1xf32>
  return
}

// -----
func.func @splat_shape(%i: index) {
  // expected-error@+1 {{result #0 must be a 1x1 tile of f32, i64, i32 or i1, but got 'tensor<8x1xi32>'}}
  %0 = tile.splat %i : index -> tensor<8x1xi32>
  return
}

// -----
func.func @extract_shape(%t: tensor<8x1xi32>) {
  // expected-error@+1 {{'tile.extract' op expected a 1x1 tile of f32, i64, i32 or i1, found 'tensor<8x1xi32>'}}
  %0 = tile.extract %t : tensor<8x1xi32>
  return
}

// -----
func.func @reduce_element(%t: tensor<8x8xi1>) {
  // expected-error@+1 {{operand #0 must be a tile of f32, i32 or i64, but got 'tensor<8x8xi1>'}}
  %0 = tile.reduce sum, %t along 1 : tensor<8x8xi1>
  return
}

// -----
func.func @reduce_kind(%t: tensor<8x8xf32>) {
  // expected-error@+1 {{expected string or keyword containing one of the following enum values for attribute 'kind' [sum, max, min]}}
  %0 = tile.reduce mean, %t along 1 : tensor<8x8xf32>
  return
}

// -----
func.func @reduce_result(%t: tensor<8x8xf32>) {
  // expected-error@+2 {{'tile.reduce' op inferred type(s) 'tensor<8x1xf32>' are incompatible with return type(s) of operation 'tensor<1x8xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = "tile.reduce"(%t) <{kind = 0 : i32, axis = 1 : i64}> : (tensor<8x8xf32>) -> tensor<1x8xf32>
  return
}

// -----
func.func @gather_count(%t: tensor<8x8xf32>, %i: tensor<4x1xi32>) {
  // expected-error@+1 {{'tile.gather' op expected one index for each row of 'tensor<8x8xf32>', found 'tensor<4x1xi32>'}}
  %0 = tile.gather %t[%i] : tensor<8x8xf32>, tensor<4x1xi32>
  return
}

// -----
func.func @scatter_count(%v: tensor<8x1xf32>, %i: tensor<4x1xi32>) {
  // expected-error@+1 {{expected a value and an index for each row of 'tensor<8x8xf32>', found 'tensor<8x1xf32>' and 'tensor<4x1xi32>'}}
  %0 = tile.scatter %v at %i : tensor<8x1xf32>, tensor<4x1xi32> -> tensor<8x8xf32>
  return
}

// -----
func.func @scatter_size(%v: tensor<8x1xf32>, %i: tensor<8x1xi32>) {
  // expected-error@+1 {{expected 'size' for a result with ? columns, found none}}
  %0 = tile.scatter %v at %i : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  return
}

// -----
func.func @log_softmax_element(%t: tensor<8x8xbf16>) {
  // expected-error@+1 {{operand #0 must be a tile of f32, but got 'tensor<8x8xbf16>'}}
  %0 = tile.log_softmax %t : tensor<8x8xbf16>
  return
}

// -----
func.func @max_sum_exp_element(%t: tensor<8x8xi32>) {
  // expected-error@+1 {{operand #0 must be a tile of f32, but got 'tensor<8x8xi32>'}}
  %0:2 = tile.max_sum_exp %t : tensor<8x8xi32>
  return
}

// -----
// expected-error@+1 {{expected 'tile.name' on each argument of a kernel, found none on argument 0}}
func.func @no_name(%n: index) attributes {tile.kernel} { return }

// -----
// expected-error@+1 {{expected a kernel's arguments to be views, index or f32, found 'i64' as argument 0}}
func.func @argument_type(%n: i64 {tile.name = "n"}) attributes {tile.kernel} { return }

// -----
// expected-error@+1 {{expected a kernel without results, found 1}}
func.func @results(%n: index {tile.name = "n"}) -> index attributes {tile.kernel} { return %n : index }

// -----
// expected-error@+1 {{expected 'tile.kernel' to be a unit attribute of a function, found 1}}
func.func @kernel_value() attributes {tile.kernel = 1 : i32} { return }

// -----
// expected-error@+1 {{expected 'tile.grid' to be an array of 0 to 3 axes of a function, found 1}}
func.func @grid_value() attributes {tile.grid = 1 : i32} { return }

// -----
// expected-error@+1 {{expected an axis of 'tile.grid' to be array<i64: argument, dim, block>, found array<i64: 0, 0>}}
func.func @grid_axis() attributes {tile.grid = [array<i64: 0, 0>]} { return }

// -----
// expected-error@+1 {{expected 'tile.grid' to name one of 1 arguments, found argument 1}}
func.func @grid_argument(%n: index) attributes {tile.grid = [array<i64: 1, 0, 8>]} { return }

// -----
// expected-error@+1 {{expected 'tile.grid' to name a view or an index, found argument 0 of type 'f32'}}
func.func @grid_type(%s: f32) attributes {tile.grid = [array<i64: 0, 0, 8>]} { return }

// -----
// expected-error@+1 {{expected 'tile.grid' to name a dimension of '!tile.view<?xf32>', found 1}}
func.func @grid_dimension(%v: !tile.view<?xf32>) attributes {tile.grid = [array<i64: 0, 1, 8>]} { return }

// -----
// expected-error@+1 {{expected a block of at least 1 in 'tile.grid', found 0}}
func.func @grid_block(%v: !tile.view<?xf32>) attributes {tile.grid = [array<i64: 0, 0, 0>]} { return }

// -----
// expected-error@+1 {{expected 'tile.name' to be a string, found 1}}
func.func @name_value(%n: index {tile.name = 1 : i32}) { return }

// -----
// expected-error@+1 {{expected 'tile.written' to be a unit attribute of a view, found unit on argument 0}}
func.func @written_index(%n: index {tile.written}) { return }

// -----
// expected-error@+1 {{expected 'tile.name' or 'tile.written' on argument 0, found "tile.other"}}
func.func @other_argument_attribute(%n: index {tile.other}) { return }

// -----
// expected-error@+1 {{expected 'tile.kernel', 'tile.grid', 'tile.sweep' or 'tile.partners', found attribute "tile.other"}}
func.func @other_attribute() attributes {tile.other} { return }

// -----

func.func @matrix_on_chip() {
  // expected-error@+1 {{'tile.on_chip' op expected a vector, found '!tile.view<?x?xf32>'}}
  %v = tile.on_chip 8 : !tile.view<?x?xf32>
  return
}

// -----

func.func @exchange_of_another_type(%x: tensor<1x1xi32>) {
  %v = tile.on_chip 8 : !tile.view<?xf32>
  // expected-error@+1 {{'tile.exchange' op expected a vector of 'i32', found '!tile.view<?xf32>'}}
  tile.exchange %x to %v : tensor<1x1xi32> to !tile.view<?xf32>
  return
}

// -----

func.func @exchange_elsewhere(%x: tensor<1x1xf32>, %v: !tile.view<?xf32>) {
  // expected-error@+1 {{'tile.exchange' op expected places that are on chip}}
  tile.exchange %x to %v : tensor<1x1xf32> to !tile.view<?xf32>
  return
}

// -----

func.func @mul_high_of_wide_numbers(%x: tensor<8x64xi64>) {
  // expected-error@+1 {{'tile.mul_high' op operand #0 must be a tile of i32, but got 'tensor<8x64xi64>'}}
  %0 = tile.mul_high %x, %x : tensor<8x64xi64>
  return
}
