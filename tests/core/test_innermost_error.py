from hermes.core.errors import StoreError, ToolError, innermost_error


def test_an_error_without_a_group_is_itself() -> None:
    error = ToolError("x")
    assert innermost_error(error) is error


def test_the_first_error_of_nested_groups() -> None:
    error = ToolError("x")
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [error]), ValueError("y")])
    assert innermost_error(group) is error


def test_a_failed_store_comes_before_other_errors_however_deep() -> None:
    lost = StoreError("full")
    inner = ExceptionGroup("inner", [ToolError("y"), ExceptionGroup("deep", [lost])])
    assert innermost_error(ExceptionGroup("outer", [ToolError("x"), inner])) is lost


def test_an_interrupt_comes_before_everything() -> None:
    interrupt = KeyboardInterrupt()
    group = BaseExceptionGroup(
        "outer", [StoreError("full"), BaseExceptionGroup("inner", [interrupt])]
    )
    assert innermost_error(group) is interrupt
