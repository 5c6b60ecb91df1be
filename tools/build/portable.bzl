"""Programs and shared libraries with LLVM, MLIR and the C++ library inside, for machines that have none.

The objects are those of the current configuration: nothing is compiled twice. A cc_binary cannot do this, as it links
what its libraries ask for, and they ask for LLVM's shared libraries."""

def _archives(deps, without = [], whole = False):
    """Paths of the archives, in an order in which each comes before what it needs; the whole of those that say so."""
    files = []
    arguments = []
    for dep in deps:
        for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
            if linked.owner in without:
                continue
            for library in linked.libraries:
                archive = library.pic_static_library or library.static_library
                if not archive or archive in files:
                    continue
                files.append(archive)
                if library.alwayslink or whole:
                    arguments += ["-Wl,--whole-archive", archive.path, "-Wl,--no-whole-archive"]
                else:
                    arguments.append(archive.path)
    return files, arguments

def _own_archives(target):
    """Those of the target itself."""
    return [
        library.pic_static_library or library.static_library
        for linked in target[CcInfo].linking_context.linker_inputs.to_list()
        if linked.owner == target.label
        for library in linked.libraries
    ]

def _absent(ctx):
    """An object in which every function of the absent libraries is tilewrightHasNoBodies."""
    archives = [archive for target in ctx.attr.absent for archive in _own_archives(target)]
    if not archives:
        return []
    output = ctx.actions.declare_file(ctx.label.name + ".absent.o")
    ctx.actions.run_shell(
        command = """set -e
{ echo .text
  nm --extern-only --defined-only "${@:2}" | awk '$2 == "T" { print ".globl " $3 "\\n.hidden " $3 "\\n" $3 ":" }'
  echo jmp tilewrightHasNoBodies
  echo '.section .note.GNU-stack,"",@progbits'
} > "$1.s"
as -o "$1" "$1.s"
rm "$1.s"
""",
        arguments = [output.path] + [archive.path for archive in archives],
        inputs = archives,
        outputs = [output],
        mnemonic = "AbsentFunctions",
        env = {"PATH": "/usr/bin:/bin"},
    )
    return [output]

# With memory_reserve_malloc.cpp in their place.
_WRAPPED = ["malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign"]

def _link(ctx, output, first, inputs, executable, with_llvm = True, without = [], absent = [], is_cpp = False):
    files, archives = _archives(ctx.attr.deps, without, is_cpp)
    inputs = inputs + absent
    archives = [file.path for file in absent] + archives
    llvm = []
    for linked in ctx.attr._llvm[CcInfo].linking_context.linker_inputs.to_list() if with_llvm else []:
        llvm += linked.user_link_flags
    ctx.actions.run(
        executable = "/usr/bin/g++",
        arguments = first + ctx.fragments.cpp.linkopts + ["-o", output.path] + ["-Wl,--start-group"] + archives + ["-Wl,--end-group"] +
                    ["-Wl,--as-needed", "-Wl,--gc-sections", "-Wl,-z,relro,-z,now", "-s"] +
                    ([] if is_cpp else ["-static-libstdc++"]) + llvm,
        inputs = files + inputs,
        outputs = [output],
        mnemonic = "PortableLink",
        progress_message = "Linking %s" % output.short_path,
        env = {"PATH": "/usr/bin:/bin"},
    )
    if executable:
        return [DefaultInfo(files = depset([output]), executable = output)]
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

def _portable_binary_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    return _link(ctx, output, ["-pie", "-static-libgcc"], [], True)

def _portable_library_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    # The version script makes all other symbols local, those of the archives, too.
    flags = [
        "-shared",
        "-Wl,-soname," + ctx.attr.soname,
        "-Wl,--version-script=" + ctx.file.version_script.path,
        "-Wl,-Bsymbolic",
        "-Wl,-z,nodelete",
        "-Wl,-z,defs",
    ]
    if ctx.attr.wraps_malloc:
        flags += ["-Wl,--wrap=" + name for name in _WRAPPED]
    without = [target.label for target in ctx.attr.without + ctx.attr.absent]
    return _link(
        ctx,
        output,
        flags,
        [ctx.file.version_script],
        False,
        ctx.attr.with_llvm,
        without,
        _absent(ctx),
        ctx.attr.is_cpp,
    )

_ATTRIBUTES = {
    "deps": attr.label_list(providers = [CcInfo]),
    "_llvm": attr.label(default = "@llvm//:archives"),
}

portable_binary = rule(_portable_binary_impl, attrs = _ATTRIBUTES, executable = True, fragments = ["cpp"])

portable_library = rule(
    _portable_library_impl,
    fragments = ["cpp"],  # of a sanitizer, --linkopt
    attrs = dict(
        _ATTRIBUTES,
        absent = attr.label_list(
            doc = "Libraries that are left out; what calls a function of theirs reaches tilewrightHasNoBodies",
            providers = [CcInfo],
        ),
        is_cpp = attr.bool(doc = "C++ calls it: all objects are in it, and the C++ library is the caller's"),
        soname = attr.string(mandatory = True),
        version_script = attr.label(allow_single_file = True, mandatory = True),
        with_llvm = attr.bool(default = True),
        without = attr.label_list(
            doc = "Libraries that are left out, as others of `deps` have all that is called of them",
            providers = [CcInfo],
        ),
        wraps_malloc = attr.bool(doc = "The library and all that is in it use //compiler/base:memory_reserve_malloc"),
    ),
)

def _headers_impl(ctx):
    headers = [
        header
        for dep in ctx.attr.deps
        for header in dep[CcInfo].compilation_context.headers.to_list()
        if header.is_source and header.owner.workspace_name == ""
    ]
    return [DefaultInfo(runfiles = ctx.runfiles(headers))]

# This tree's headers that libraries have, as data of a test.
headers = rule(_headers_impl, attrs = {"deps": attr.label_list(providers = [CcInfo])})
