"""Programs and shared libraries with LLVM, MLIR and the C++ library inside, for machines that have none.

The objects are those of the current configuration: nothing is compiled twice. A cc_binary cannot do this, as it links
what its libraries ask for, and they ask for LLVM's shared libraries."""

def _archives(deps):
    """Paths of the archives, in an order in which each comes before what it needs; the whole of those that say so."""
    files = []
    arguments = []
    for dep in deps:
        for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linked.libraries:
                archive = library.pic_static_library or library.static_library
                if not archive:
                    continue
                files.append(archive)
                if library.alwayslink:
                    arguments += ["-Wl,--whole-archive", archive.path, "-Wl,--no-whole-archive"]
                else:
                    arguments.append(archive.path)
    return files, arguments

def _link(ctx, output, first, inputs, executable):
    files, archives = _archives(ctx.attr.deps)
    llvm = []
    for linked in ctx.attr._llvm[CcInfo].linking_context.linker_inputs.to_list():
        llvm += linked.user_link_flags
    ctx.actions.run(
        executable = "/usr/bin/g++",
        arguments = first + ["-o", output.path] + ["-Wl,--start-group"] + archives + ["-Wl,--end-group"] +
                    ["-Wl,--as-needed", "-Wl,--gc-sections", "-Wl,-z,relro,-z,now", "-static-libstdc++", "-s"] + llvm,
        inputs = files + inputs,
        outputs = [output],
        mnemonic = "PortableLink",
        progress_message = "Linking %s with LLVM inside" % output.short_path,
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
    return _link(ctx, output, flags, [ctx.file.version_script], False)

_ATTRIBUTES = {
    "deps": attr.label_list(providers = [CcInfo]),
    "_llvm": attr.label(default = "@llvm//:archives"),
}

portable_binary = rule(_portable_binary_impl, attrs = _ATTRIBUTES, executable = True)

portable_library = rule(
    _portable_library_impl,
    attrs = dict(
        _ATTRIBUTES,
        soname = attr.string(mandatory = True),
        version_script = attr.label(allow_single_file = True, mandatory = True),
    ),
)
