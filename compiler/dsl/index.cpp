// Arithmetic on Index.

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "compiler/dsl/impl.h"

using namespace mlir;

namespace tilewright {

template <typename Op> static Index binary(const char *operation, const Index &a, const Index &b) {
  KernelBuilder::Impl *impl = implOf({&a, &b});
  if (!impl) return {};
  Value x = impl->use(a, operation), y = impl->use(b, operation);
  return x && y ? impl->wrapIndex(impl->create<Op>(x, y)) : impl->noIndex();
}

static Condition compare(arith::CmpIPredicate predicate, const char *operation, const Index &a,
                         const Index &b) {
  KernelBuilder::Impl *impl = implOf({&a, &b});
  if (!impl) return {};
  Value x = impl->use(a, operation), y = impl->use(b, operation);
  if (!x || !y) return {&impl->handle, nullptr};
  return impl->wrapCondition(impl->create<arith::CmpIOp>(predicate, x, y));
}

// An Index for the same kernel as `like`.
static Index constantLike(const Index &like, int64_t value) {
  return like.builder() ? like.builder()->constant(value) : Index();
}

Index operator+(const Index &a, const Index &b) { return binary<arith::AddIOp>("operator+", a, b); }
Index operator-(const Index &a, const Index &b) { return binary<arith::SubIOp>("operator-", a, b); }
Index operator*(const Index &a, const Index &b) { return binary<arith::MulIOp>("operator*", a, b); }
Index operator+(const Index &a, int64_t b) { return a + constantLike(a, b); }
Index operator-(const Index &a, int64_t b) { return a - constantLike(a, b); }
Index operator*(const Index &a, int64_t b) { return a * constantLike(a, b); }

Index operator/(const Index &a, const Index &b) { return binary<arith::DivUIOp>("operator/", a, b); }

Index operator/(const Index &a, int64_t b) {
  KernelBuilder::Impl *impl = implOf({&a});
  if (impl && b < 1) {
    impl->fail("operator/", "expected a divisor of at least 1, found " + std::to_string(b));
    return impl->noIndex();
  }
  return a / constantLike(a, b);
}

Index min(const Index &a, const Index &b) { return binary<arith::MinSIOp>("min", a, b); }
Index max(const Index &a, const Index &b) { return binary<arith::MaxSIOp>("max", a, b); }

Condition operator<(const Index &a, const Index &b) {
  return compare(arith::CmpIPredicate::slt, "operator<", a, b);
}
Condition operator==(const Index &a, const Index &b) {
  return compare(arith::CmpIPredicate::eq, "operator==", a, b);
}
Condition operator!=(const Index &a, const Index &b) {
  return compare(arith::CmpIPredicate::ne, "operator!=", a, b);
}
Condition operator!=(const Index &a, int64_t b) { return a != constantLike(a, b); }

} // namespace tilewright
