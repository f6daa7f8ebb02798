"""Files that a program runs or obeys without being given their names.

`python job.py` imports a `json.py` beside it, `terraform plan` runs what `main.tf` says, git runs
what a repository's configuration names. A file of this kind that the agent wrote before counts as
a script that it wrote and now runs.
"""

import re
import sys
from collections.abc import Mapping, Sequence

_PYTHON = ("*.py", "*.pth", "*.so", "*.pyc", "*.zip", "pyproject.toml", "setup.cfg", "tox.ini")
_GIT = (
    ".git",
    ".git/*",
    ".gitattributes",
    ".gitmodules",
    "config",
    "hooks/*",
    "HEAD",
    ".lfsconfig",
    ".pre-commit-config.yaml",
)
_NODE = ("*.js", "*.mjs", "*.cjs", "*.ts", "package.json", ".npmrc", ".yarnrc*", ".pnpmfile.cjs")
_MAKE = ("Makefile", "makefile", "GNUmakefile", "*.mk")
_TASKS = ("CMakeLists.txt", "*.cmake", "build.ninja", "justfile", ".justfile", "Taskfile.y*ml")
_TERRAFORM = ("*.tf", "*.tf.json", "*.tfvars", "*.tofu", "terragrunt.hcl", ".terraform/*", "*.hcl")
_ANSIBLE = ("ansible.cfg", "*.yml", "*.yaml", "*_plugins/*", "library/*", "roles/*", "hosts")
_DOCKER = ("Dockerfile*", "*.dockerfile", "docker-compose*", "compose*", ".env", ".dockerignore")
_JAVA = ("pom.xml", "*.gradle*", "gradle.properties", "gradlew", "mvnw", ".mvn/*", "build.xml")
_RUBY = ("*.rb", "Gemfile*", "Rakefile", "Vagrantfile", ".bundle/*")

_GIT_RECORDS = re.compile(
    r"/\.git/(?:(?:objects|refs|logs)/.*|index|packed-refs|COMMIT_EDITMSG|[A-Z_]*HEAD)"
)
"""What git writes with every commit: it names no program to run."""

IMPLICIT_FILES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("python", "pypy", "pytest", "tox", "nox", "ipython", "pip", "uv"), _PYTHON),
    **dict.fromkeys(("django-admin", "flask", "gunicorn", "uvicorn", "celery", "mypy"), _PYTHON),
    **dict.fromkeys(("git", "gh", "glab", "pre-commit", "tig"), _GIT),
    **dict.fromkeys(("node", "nodejs", "npm", "npx", "yarn", "pnpm", "deno", "bun"), _NODE),
    **dict.fromkeys(("make", "gmake", "cmake", "ninja", "just", "task"), (*_MAKE, *_TASKS)),
    **dict.fromkeys(("terraform", "tofu", "terragrunt", "packer"), _TERRAFORM),
    **dict.fromkeys(("ansible", "ansible-playbook", "ansible-inventory"), _ANSIBLE),
    **dict.fromkeys(("ansible-lint", "ansible-galaxy", "molecule"), _ANSIBLE),
    **dict.fromkeys(("docker", "docker compose", "docker-compose", "podman"), _DOCKER),
    **dict.fromkeys(("mvn", "gradle", "ant", "java"), (*_JAVA, "*.class", "*.jar")),
    **dict.fromkeys(("ruby", "rake", "bundle", "irb", "vagrant", "rails"), _RUBY),
    **dict.fromkeys(("cargo", "rustc"), ("Cargo.toml", "build.rs", ".cargo/*", "*.rs")),
    **dict.fromkeys(("go", "gofmt"), ("*.go", "go.mod", "go.work")),
    **dict.fromkeys(("code", "codium", "cursor"), (".vscode/*", "*.code-workspace")),
    **dict.fromkeys(("direnv", "mise", "asdf"), (".envrc", ".env*", ".mise*", "mise*.toml")),
    "perl": ("*.pm", "*.pl"),
    "php": ("*.php", "php.ini", ".user.ini"),
    "composer": ("composer.json", "*.php"),
    "helm": ("Chart.yaml", "templates/*", "*.tgz"),
    "gdb": (".gdbinit",),
    "psql": (".psqlrc",),
    "vim": (".vimrc", ".exrc"),
    "curl": (".curlrc",),
    "wget": (".wgetrc",),
}


_BUILDS = frozenset({"build", "buildx", "builder", "compose", "bake", "stack", "play"})
_MODULE_FILES = re.compile(r"\.(?:pyc|py|[\w.-]*so|zip)$")
_START_UP_MODULES = frozenset({"sitecustomize", "usercustomize"})


def files_obeyed_by(program: str, words: Sequence[str] = ()) -> tuple[str, ...]:
    """Patterns, relative to the folder it runs in or the folder of its script."""
    name = program.rpartition("/")[2]
    if name in ("docker", "podman") and words and not _BUILDS.intersection(words):
        return ()
    return IMPLICIT_FILES.get(name) or IMPLICIT_FILES.get(name.rstrip("0123456789."), ())


def loads(program: str, words: Sequence[str], file: str) -> bool:
    """Whether a program that is judged to read only would load this file of its folder.

    Python, when it runs a module or a line of code, finds only modules that these import: the
    module itself and those of the standard library.
    """
    name = program.rpartition("/")[2].rstrip("0123456789.")
    if name not in ("python", "pypy") or not _MODULE_FILES.search(file):
        return True
    module = _MODULE_FILES.sub("", file.partition("/")[0]).partition(".")[0]
    run = words[words.index("-m") + 1 :][:1] if "-m" in words else []
    named = {each.partition(".")[0] for each in run}
    return module in named | _START_UP_MODULES or module in sys.stdlib_module_names


def names_no_program(path: str) -> bool:
    """Whether a file that git reads holds commits and references only."""
    return _GIT_RECORDS.search(path) is not None
