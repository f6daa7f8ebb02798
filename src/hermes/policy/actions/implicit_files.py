"""Finds files that a program runs or uses as configuration without an argument that names them.

`python job.py` imports a `json.py` beside it, `terraform plan` runs `main.tf`, git runs programs
named in a repository's configuration. If the agent wrote such a file before, it counts as a script
that it wrote and now runs.
"""

import re
import shutil
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from posixpath import basename, realpath
from re import Pattern, compile

from msgspec.structs import replace

from hermes.policy.actions.action_effects import ActionStep
from hermes.policy.actions.project_files import PROJECT_FILES
from hermes.policy.commands.effects import word_set

_PYTHON_FILES = (
    "*.py",
    "*.pth",
    "*.so",
    "*.pyc",
    "*.zip",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
)
_GIT_FILES = (
    ".git",
    ".git/*",
    ".gitattributes",
    ".gitmodules",
    "config",
    "config.worktree",
    "commondir",
    "hooks/*",
    "HEAD",
    "packed-refs",
    "refs/heads/*",
    "refs/notes/*",
    "refs/remotes/*",
    "refs/tags/*",
    "objects/info/*",
    "objects/pack/*",
    "info/attributes",
    ".lfsconfig",
    ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml",
    ".husky/*",
    ".githooks/*",
    ".git-hooks/*",
    "lefthook.y*ml",
    ".lefthook.y*ml",
    ".overcommit.yml",
)
_NODE_FILES = (
    "*.js",
    "*.mjs",
    "*.cjs",
    "*.ts",
    "package.json",
    "package-lock.json",
    ".npmrc",
    ".yarnrc*",
    ".yarn/*",
    ".pnpmrc",
    "pnpm-workspace.yaml",
    "bunfig.toml",
    "deno.json*",
    ".pnpmfile.cjs",
)
_MAKE_FILES = ("Makefile", "makefile", "GNUmakefile", "*.mk")
_BUILD_FILES = (
    "CMakeLists.txt",
    "*.cmake",
    "build.ninja",
    "justfile",
    ".justfile",
    "Taskfile.y*ml",
)
_TERRAFORM_FILES = (
    "*.tf",
    "*.tf.json",
    "*.tfvars",
    "*.tofu",
    "terragrunt.hcl",
    ".terraform/*",
    "*.hcl",
)
_ANSIBLE_FILES = ("ansible.cfg", "*.yml", "*.yaml", "*_plugins/*", "library/*", "roles/*", "hosts")
_DOCKER_FILES = (
    "Dockerfile*",
    "*.dockerfile",
    "docker-compose*",
    "compose*",
    ".env",
    ".dockerignore",
)
_JAVA_FILES = (
    "pom.xml",
    "*.gradle*",
    "gradle.properties",
    "gradlew",
    "mvnw",
    ".mvn/*",
    "build.xml",
)
_KUSTOMIZE_FILES = ("kustomization.y*ml", "Kustomization", "skaffold.yaml")
_RUST_FILES = (
    "Cargo.toml",
    "build.rs",
    ".cargo/*",
    "*.rs",
    "rust-toolchain",
    "rust-toolchain.toml",
)
_RUBY_FILES = ("*.rb", "Gemfile*", "Rakefile", "Vagrantfile", ".bundle/*", "*.gemspec", ".gemrc")
_PACKAGE_FILES = (
    *_PYTHON_FILES,
    *("pip.conf", "pip.ini", ".pip/*", ".pypirc", "uv.toml", "poetry.toml", "Pipfile*"),
)

_GIT_RECORDS = re.compile(
    r"/\.git/(?:(?:objects|refs|logs)/.*|index|packed-refs|COMMIT_EDITMSG|[A-Z_]*HEAD)"
)
"""Files that git writes with every commit, which name no program to run."""

IMPLICIT_FILES: Mapping[str, tuple[str, ...]] = {
    **PROJECT_FILES,
    **dict.fromkeys(
        ("python", "pypy", "pip", "uv", "pipenv", "poetry", "pdm", "hatch"), _PACKAGE_FILES
    ),
    **dict.fromkeys(("pytest", "tox", "nox", "ipython"), _PYTHON_FILES),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba"), (".condarc", "condarc", ".conda/*", "environment.y*ml")
    ),
    **dict.fromkeys(
        ("django-admin", "flask", "gunicorn", "uvicorn", "celery", "mypy"), _PYTHON_FILES
    ),
    **dict.fromkeys(("git", "gh", "glab", "pre-commit", "tig"), _GIT_FILES),
    **dict.fromkeys(("node", "nodejs", "npm", "npx", "yarn", "pnpm", "deno", "bun"), _NODE_FILES),
    **dict.fromkeys(
        ("make", "gmake", "cmake", "ninja", "just", "task"), (*_MAKE_FILES, *_BUILD_FILES)
    ),
    **dict.fromkeys(("terraform", "tofu", "terragrunt", "tf", "infracost"), _TERRAFORM_FILES),
    "packer": (*_TERRAFORM_FILES, *PROJECT_FILES["packer"]),
    **dict.fromkeys(("ansible", "ansible-playbook", "ansible-inventory"), _ANSIBLE_FILES),
    **dict.fromkeys(("ansible-lint", "ansible-galaxy", "molecule"), _ANSIBLE_FILES),
    **dict.fromkeys(("docker", "docker compose", "docker-compose", "podman"), _DOCKER_FILES),
    **dict.fromkeys(("mvn", "gradle", "ant", "java"), (*_JAVA_FILES, "*.class", "*.jar")),
    **dict.fromkeys(("ruby", "rake", "bundle", "irb", "vagrant", "rails", "gem"), _RUBY_FILES),
    **dict.fromkeys(("cargo", "rustc", "rustup", "rustfmt", "rustdoc"), _RUST_FILES),
    **dict.fromkeys(("supervisorctl", "supervisord"), ("supervisord.conf", "etc/supervisord.conf")),
    **dict.fromkeys(("go", "gofmt"), ("*.go", "go.mod", "go.work")),
    **dict.fromkeys(("code", "codium", "cursor"), (".vscode/*", "*.code-workspace")),
    **dict.fromkeys(
        ("direnv", "mise", "asdf"), (".envrc", ".env*", ".mise*", "mise*.toml", ".tool-versions")
    ),
    "perl": ("*.pm", "*.pl"),
    "php": ("*.php", "php.ini", ".user.ini"),
    "composer": ("composer.json", "auth.json", "*.php"),
    "helm": ("Chart.yaml", "templates/*", "*.tgz"),
    **dict.fromkeys(("kubectl", "kustomize", "oc", "skaffold"), _KUSTOMIZE_FILES),
    "helmfile": ("helmfile*", "*.gotmpl", "environments/*"),
    "gdb": (".gdbinit",),
    "psql": (".psqlrc",),
    "vim": (".vimrc", ".exrc"),
    "curl": (".curlrc",),
    "wget": (".wgetrc",),
}


_HOME_FILES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("npm", "npx", "node", "pnpm"), (".npmrc", ".config/npm/*", ".config/pnpm/*")),
    **dict.fromkeys(("yarn", "bun"), (".npmrc", ".yarnrc*", ".yarn/*", ".bunfig.toml")),
    **dict.fromkeys(("pip", "pipenv", "uv", "poetry"), (".config/*", ".pip/*", ".pypirc")),
    **dict.fromkeys(
        ("python", "pypy"), (".config/pip/*", ".pip/*", ".local/lib/python*", ".pythonrc*")
    ),
    **dict.fromkeys(("conda", "mamba", "micromamba"), (".condarc", ".conda/*", ".config/conda/*")),
    **dict.fromkeys(("gem", "bundle", "ruby", "rake"), (".gemrc", ".bundle/*", ".config/gem/*")),
    **dict.fromkeys(("cargo", "rustc", "rustup"), (".cargo/*", ".rustup/*")),
    **dict.fromkeys(("mvn", "gradle"), (".m2/*", ".mavenrc", ".gradle/*")),
    **dict.fromkeys(("terraform", "tofu", "tf"), (".terraformrc", ".tofurc", ".terraform.d/*")),
    **dict.fromkeys(("kubectl", "oc", "helm"), (".kube/*", ".config/helm/*", ".krew/*")),
    **dict.fromkeys(("docker", "podman"), (".docker/*", ".config/containers/*")),
    **dict.fromkeys(("git", "gh", "glab"), (".gitconfig", ".config/git/*", ".config/gh/*")),
    **dict.fromkeys(("psql", "pg_dump"), (".psqlrc", ".pgpass", ".pg_service.conf")),
    **dict.fromkeys(("mysql", "mariadb", "mysqladmin"), (".my.cnf", ".mylogin.cnf")),
    **dict.fromkeys(
        ("ansible", "ansible-playbook", "ansible-inventory"), (".ansible.cfg", ".ansible/*")
    ),
    "composer": (".composer/*", ".config/composer/*"),
    "go": (".config/go/*",),
    "aws": (".aws/*",),
    "gcloud": (".config/gcloud/*",),
    "ssh": (".ssh/*",),
    "curl": (".curlrc", ".config/curlrc"),
    "wget": (".wgetrc",),
    "dig": (".digrc",),
    "redis-cli": (".redisclirc",),
    "tmux": (".tmux.conf", ".config/tmux/*"),
    "screen": (".screenrc",),
    "gdb": (".gdbinit", ".config/gdb/*"),
    "rpm": (".rpmrc", ".rpmmacros", ".config/rpm/*"),
    "sqlite3": (".sqliterc", ".config/sqlite3/*"),
}
"""Files in the home folder that programs load without an argument that names them."""
_UPWARD_PROGRAMS = word_set(
    "npm npx yarn pnpm bun cargo rustc rustup bundle rake poetry uv pdm mise asdf direnv pulumi"
    " databricks"
)
"""Programs that use such files of the folders above as well."""


def places_searched(
    step: ActionStep, folders: Iterable[str], home: str
) -> list[tuple[str, tuple[str, ...]]]:
    """Folders in which a program looks for files to load, and patterns of these."""
    name = _table_name(step.program, _HOME_FILES)
    places = [(home, _HOME_FILES[name])] if name else []
    patterns = implicit_files_of(step.program, step.argv)
    if not patterns:
        return places
    folders = tuple(folders)
    if basename(step.program) in _UPWARD_PROGRAMS:
        above = (str(each) for folder in folders for each in PurePosixPath(folder).parents)
        folders = tuple(dict.fromkeys((*folders, *above)))
    return [*((folder, patterns) for folder in folders), *places]


def _table_name(program: str, table: Container[str]) -> str:
    names = (basename(program), basename(program).rstrip("0123456789."))
    return next((name for name in names if name in table), "")


_DOCKER_BUILD_VERBS = frozenset({"build", "buildx", "builder", "compose", "bake", "stack", "play"})
_MODULE_FILES = re.compile(r"\.(?:pyc|py|[\w.-]*so|zip)$")
_START_UP_MODULES = frozenset({"sitecustomize", "usercustomize"})


def implicit_files_of(program: str, words: Sequence[str] = ()) -> tuple[str, ...]:
    """Patterns, relative to its working folder or the folder of its script."""
    name = program.rpartition("/")[2]
    if name in ("docker", "podman") and words and not _DOCKER_BUILD_VERBS.intersection(words):
        return ()
    if name in ("kubectl", "oc") and not _builds_kustomization(words):
        return ()
    return IMPLICIT_FILES.get(_table_name(program, IMPLICIT_FILES), ())


def _builds_kustomization(words: Sequence[str]) -> bool:
    return any(word.startswith(("-k", "--kustomize")) or word == "kustomize" for word in words)


def loads_from_anywhere(step: ActionStep) -> bool:
    """Return whether the files that it loads name further folders with such files."""
    return implicit_files_of(step.program, step.argv) is _KUSTOMIZE_FILES


def loads_file(program: str, words: Sequence[str], file: str) -> bool:
    """Return whether a program that only reads would load this file in its folder.

    When Python runs a module or a line of code, it loads only the modules that these import: the
    module itself and those with names of the standard library.
    """
    name = program.rpartition("/")[2].rstrip("0123456789.")
    if name not in ("python", "pypy") or not _MODULE_FILES.search(file):
        return True
    module = _MODULE_FILES.sub("", file.partition("/")[0]).partition(".")[0]
    run = words[words.index("-m") + 1 :][:1] if "-m" in words else []
    named = {each.partition(".")[0] for each in run}
    return module in named | _START_UP_MODULES or module in sys.stdlib_module_names


_SAFE_PATH_VERSION = (3, 11)
"""Since this version PYTHONSAFEPATH, which confined commands get, keeps modules of the working
folder from being imported."""
_ENVIRONMENT_WRAPPERS = frozenset({"env", "sudo", "doas", "su", "runuser"})


def _find_imported_file(step: ActionStep, folders: Iterable[str]) -> str:
    """The first file in these folders that Python imports instead of a module of its own; or empty.

    Only for a call whose code was read.
    """
    name = basename(step.program)
    if name.rstrip("0123456789.") not in ("python", "pypy") or {"-I", "-P"} & {*step.flags}:
        return ""
    gets_variable = not _ENVIRONMENT_WRAPPERS.intersection(step.via) and "-E" not in step.flags
    if gets_variable and _python_version(step.program) >= _SAFE_PATH_VERSION:
        return ""
    for folder in folders:
        if "…" in folder:
            return f"what is in {folder}"
        for pattern in ("*.py", "*.pyc", "*.so", "*/__init__.py"):
            for file in Path(folder).glob(pattern):
                if loads_file(step.program, step.argv, str(file.relative_to(folder))):
                    return str(file)
    return ""


def mark_imported_files(step: ActionStep, folders: Sequence[str]) -> ActionStep:
    if file := _find_imported_file(step, folders):
        why = f"exec-dynamic: {step.program} imports {file}, which is not read here"
        return replace(step, effects=step.effects | {"exec-dynamic"}, why=(*step.why, why))
    return step


def _python_version(program: str) -> tuple[int, ...]:
    """By the name of the file that the program is; empty when that does not tell it."""
    found = re.search(r"python(\d+)\.(\d+)$", realpath(shutil.which(program) or program))
    return tuple(map(int, found.groups())) if found else ()


def is_git_data(path: str) -> bool:
    """Return whether a file of git contains only commits and references."""
    return _GIT_RECORDS.search(path) is not None


_UNPACKING_PROGRAMS = frozenset(
    {"tar", "bsdtar", "unzip", "cpio", "pax", "unar", "unrar", "jar", "rsync", "scp", "sftp", "mv"}
)
_RECURSIVE_COPY_FLAGS = frozenset({"-r", "-R", "-a", "--recursive", "--archive"})


def writes_trees(program: str, flags: Iterable[str]) -> bool:
    """Return whether a program may place files of any name below the paths that it changes."""
    name = program.rpartition("/")[2]
    copies = name == "cp" and _RECURSIVE_COPY_FLAGS.intersection(flags)
    return name in _UNPACKING_PROGRAMS or bool(copies)


@cache
def implicit_file_pattern() -> Pattern[str]:
    groups = (*IMPLICIT_FILES.values(), *_HOME_FILES.values())
    patterns = {pattern for group in groups for pattern in group}
    return compile("|".join(translate(f"*/{pattern}") for pattern in sorted(patterns)))


def matching_files(
    paths: Iterable[str], folder: str, patterns: Iterable[str], fits: Callable[[str], bool]
) -> list[str]:
    """The recorded paths that a program in this folder would load.

    `fits` takes a path relative to the folder.
    """
    patterns = tuple(patterns)
    wanted = _compile_patterns(folder.rstrip("/"), patterns)
    start = len(folder.rstrip("/")) + 1
    return [
        path
        for path in paths
        if (path.endswith("/") and _may_match_inside(path[start:-1], patterns))
        or (wanted.fullmatch(path) and fits(path[start:]))
    ]


def _may_match_inside(inner: str, patterns: Iterable[str]) -> bool:
    """Return whether files of a folder, given relative to the one searched, may match."""
    first = inner.partition("/")[0]
    return not first or any(
        pattern.startswith("*") or fnmatchcase(first, pattern.partition("/")[0])
        for pattern in patterns
    )


@lru_cache(maxsize=256)
def _compile_patterns(folder: str, patterns: tuple[str, ...]) -> Pattern[str]:
    return compile("|".join(translate(f"{folder}/{pattern}") for pattern in patterns))
