! wattio_io for Fortran: the calls of wattio_io.h.
!
! Extents are in Fortran's order. They are passed on in reverse, so a field of (nx, ny) is (ny, nx) in the
! files, without moving any element. Offsets begin at 0. Each call returns a code: WATTIO_IO_OK, or a code for
! what went wrong; wattio_io_message has the text.
module wattio_io
    use, intrinsic :: iso_c_binding
    implicit none
    private

    integer, parameter, public :: WATTIO_IO_OK = 0
    integer, parameter, public :: WATTIO_IO_STEP_FAILED = 1
    integer, parameter, public :: WATTIO_IO_INPUT = 2
    integer, parameter, public :: WATTIO_IO_HOST = 3
    integer, parameter, public :: WATTIO_IO_TIMED_OUT = 4
    integer, parameter, public :: WATTIO_IO_INTERNAL = 5

    integer(c_int64_t), parameter, public :: WATTIO_IO_INT8 = 1
    integer(c_int64_t), parameter, public :: WATTIO_IO_INT16 = 2
    integer(c_int64_t), parameter, public :: WATTIO_IO_INT32 = 3
    integer(c_int64_t), parameter, public :: WATTIO_IO_INT64 = 4
    integer(c_int64_t), parameter, public :: WATTIO_IO_FLOAT32 = 9
    integer(c_int64_t), parameter, public :: WATTIO_IO_FLOAT64 = 10

    integer(c_int), parameter, public :: WATTIO_IO_SYNC = 0
    integer(c_int), parameter, public :: WATTIO_IO_DEFERRED = 1

    ! Used in place of a variable: the current step.
    integer(c_int64_t), parameter, public :: WATTIO_IO_STEP = -1

    ! A session.
    type, public :: wattio_io_session
        type(c_ptr) :: handle = c_null_ptr
    end type

    public :: wattio_io_open, wattio_io_is_writer, wattio_io_variable, wattio_io_attribute
    public :: wattio_io_begin_step, wattio_io_put, wattio_io_allocate, wattio_io_commit
    public :: wattio_io_end_step, wattio_io_flush, wattio_io_is_durable, wattio_io_wait_durable
    public :: wattio_io_close, wattio_io_message, wattio_io_report

    interface wattio_io_attribute
        module procedure attribute_text, attribute_number
    end interface

    interface
        function c_open(config, path, rank, ranks, io) bind(c, name="wattio_io_open") result(code)
            import :: c_char, c_int, c_int64_t, c_ptr
            character(kind=c_char), intent(in) :: config(*), path(*)
            integer(c_int64_t), value :: rank, ranks
            type(c_ptr), intent(out) :: io
            integer(c_int) :: code
        end function

        function c_is_writer(io, yes) bind(c, name="wattio_io_is_writer") result(code)
            import :: c_int, c_ptr
            type(c_ptr), value :: io
            integer(c_int), intent(out) :: yes
            integer(c_int) :: code
        end function

        function c_variable(io, name, kind, axes, count, global_shape, offset, variable) &
            bind(c, name="wattio_io_variable") result(code)
            import :: c_char, c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: kind, axes
            integer(c_int64_t), intent(in) :: count(*)
            type(c_ptr), value :: global_shape, offset
            integer(c_int64_t), intent(out) :: variable
            integer(c_int) :: code
        end function

        function c_attribute_text(io, variable, name, text) &
            bind(c, name="wattio_io_attribute_text") result(code)
            import :: c_char, c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: variable
            character(kind=c_char), intent(in) :: name(*), text(*)
            integer(c_int) :: code
        end function

        function c_attribute_number(io, variable, name, number) &
            bind(c, name="wattio_io_attribute_number") result(code)
            import :: c_char, c_double, c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: variable
            character(kind=c_char), intent(in) :: name(*)
            real(c_double), value :: number
            integer(c_int) :: code
        end function

        function c_begin_step(io, step) bind(c, name="wattio_io_begin_step") result(code)
            import :: c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: step
            integer(c_int) :: code
        end function

        function c_put(io, variable, data, mode) bind(c, name="wattio_io_put") result(code)
            import :: c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: variable
            type(c_ptr), value :: data
            integer(c_int), value :: mode
            integer(c_int) :: code
        end function

        function c_allocate(io, variable, data) bind(c, name="wattio_io_allocate") result(code)
            import :: c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: variable
            type(c_ptr), intent(out) :: data
            integer(c_int) :: code
        end function

        function c_commit(io, variable) bind(c, name="wattio_io_commit") result(code)
            import :: c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: variable
            integer(c_int) :: code
        end function

        function c_end_step(io) bind(c, name="wattio_io_end_step") result(code)
            import :: c_int, c_ptr
            type(c_ptr), value :: io
            integer(c_int) :: code
        end function

        function c_flush(io) bind(c, name="wattio_io_flush") result(code)
            import :: c_int, c_ptr
            type(c_ptr), value :: io
            integer(c_int) :: code
        end function

        function c_is_durable(io, step, yes) bind(c, name="wattio_io_is_durable") result(code)
            import :: c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: step
            integer(c_int), intent(out) :: yes
            integer(c_int) :: code
        end function

        function c_wait_durable(io, step, seconds) &
            bind(c, name="wattio_io_wait_durable") result(code)
            import :: c_double, c_int, c_int64_t, c_ptr
            type(c_ptr), value :: io
            integer(c_int64_t), value :: step
            real(c_double), value :: seconds
            integer(c_int) :: code
        end function

        function c_close(io, report, bytes, needed) bind(c, name="wattio_io_close") result(code)
            import :: c_int, c_ptr, c_size_t
            type(c_ptr), intent(inout) :: io
            type(c_ptr), value :: report
            integer(c_size_t), value :: bytes
            type(c_ptr), value :: needed
            integer(c_int) :: code
        end function

        function c_error() bind(c, name="wattio_io_error") result(text)
            import :: c_ptr
            type(c_ptr) :: text
        end function

        function c_report() bind(c, name="wattio_io_report") result(text)
            import :: c_ptr
            type(c_ptr) :: text
        end function

        function c_length(text) bind(c, name="strlen") result(length)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    ! Open without MPI: the ranks of one node connect to their writer at the path of a socket.
    subroutine wattio_io_open(config, path, rank, ranks, session, code)
        character(*), intent(in) :: config, path
        integer, intent(in) :: rank, ranks
        type(wattio_io_session), intent(out) :: session
        integer, intent(out) :: code
        code = c_open(trim(config) // c_null_char, trim(path) // c_null_char, &
                      int(rank, c_int64_t), int(ranks, c_int64_t), session%handle)
    end subroutine

    ! Whether this rank only writes; also false if the handle is not a session.
    function wattio_io_is_writer(session) result(yes)
        type(wattio_io_session), intent(in) :: session
        logical :: yes
        integer(c_int) :: found
        yes = .false.
        if (c_is_writer(session%handle, found) == WATTIO_IO_OK) yes = found /= 0
    end function

    ! Declare a variable. Give both global_shape and offset, or neither.
    subroutine wattio_io_variable(session, name, kind, count, variable, code, global_shape, offset)
        type(wattio_io_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: kind
        integer, intent(in) :: count(:)
        integer(c_int64_t), intent(out) :: variable
        integer, intent(out) :: code
        integer, intent(in), optional :: global_shape(:), offset(:)
        integer(c_int64_t), target :: whole(size(count)), start(size(count))
        integer(c_int64_t) :: axes
        type(c_ptr) :: whole_at, start_at
        whole_at = c_null_ptr
        start_at = c_null_ptr
        variable = -1
        axes = size(count, kind=c_int64_t)
        if (present(global_shape)) then
            ! An impossible number of axes: the library reports it, with the variable's name.
            if (size(global_shape) /= size(count)) axes = -1
            if (axes >= 0) whole = reversed(global_shape)
            whole_at = c_loc(whole)
        end if
        if (present(offset)) then
            if (size(offset) /= size(count)) axes = -1
            if (axes >= 0) start = reversed(offset)
            start_at = c_loc(start)
        end if
        code = c_variable(session%handle, trim(name) // c_null_char, kind, axes, &
                          reversed(count), whole_at, start_at, variable)
    end subroutine

    subroutine attribute_text(session, variable, name, value, code)
        type(wattio_io_session), intent(in) :: session
        integer(c_int64_t), intent(in) :: variable
        character(*), intent(in) :: name, value
        integer, intent(out) :: code
        code = c_attribute_text(session%handle, variable, trim(name) // c_null_char, &
                                trim(value) // c_null_char)
    end subroutine

    subroutine attribute_number(session, variable, name, value, code)
        type(wattio_io_session), intent(in) :: session
        integer(c_int64_t), intent(in) :: variable
        character(*), intent(in) :: name
        real(c_double), intent(in) :: value
        integer, intent(out) :: code
        code = c_attribute_number(session%handle, variable, trim(name) // c_null_char, value)
    end subroutine

    subroutine wattio_io_begin_step(session, step, code)
        type(wattio_io_session), intent(in) :: session
        integer, intent(in) :: step
        integer, intent(out) :: code
        code = c_begin_step(session%handle, int(step, c_int64_t))
    end subroutine

    ! Copy a block; `data` is c_loc of its first element.
    subroutine wattio_io_put(session, variable, data, code, mode)
        type(wattio_io_session), intent(in) :: session
        integer(c_int64_t), intent(in) :: variable
        type(c_ptr), intent(in) :: data
        integer, intent(out) :: code
        integer(c_int), intent(in), optional :: mode
        integer(c_int) :: how
        how = WATTIO_IO_SYNC
        if (present(mode)) how = mode
        code = c_put(session%handle, variable, data, how)
    end subroutine

    ! Get memory for a block, for c_f_pointer.
    subroutine wattio_io_allocate(session, variable, data, code)
        type(wattio_io_session), intent(in) :: session
        integer(c_int64_t), intent(in) :: variable
        type(c_ptr), intent(out) :: data
        integer, intent(out) :: code
        code = c_allocate(session%handle, variable, data)
    end subroutine

    subroutine wattio_io_commit(session, variable, code)
        type(wattio_io_session), intent(in) :: session
        integer(c_int64_t), intent(in) :: variable
        integer, intent(out) :: code
        code = c_commit(session%handle, variable)
    end subroutine

    subroutine wattio_io_end_step(session, code)
        type(wattio_io_session), intent(in) :: session
        integer, intent(out) :: code
        code = c_end_step(session%handle)
    end subroutine

    subroutine wattio_io_flush(session, code)
        type(wattio_io_session), intent(in) :: session
        integer, intent(out) :: code
        code = c_flush(session%handle)
    end subroutine

    subroutine wattio_io_is_durable(session, step, yes, code)
        type(wattio_io_session), intent(in) :: session
        integer, intent(in) :: step
        logical, intent(out) :: yes
        integer, intent(out) :: code
        integer(c_int) :: found
        code = c_is_durable(session%handle, int(step, c_int64_t), found)
        yes = code == WATTIO_IO_OK .and. found /= 0
    end subroutine

    ! Wait for a step: at most so many seconds, or without limit if below 0.
    subroutine wattio_io_wait_durable(session, step, seconds, code)
        type(wattio_io_session), intent(in) :: session
        integer, intent(in) :: step
        real(c_double), intent(in) :: seconds
        integer, intent(out) :: code
        code = c_wait_durable(session%handle, int(step, c_int64_t), seconds)
    end subroutine

    subroutine wattio_io_close(session, code)
        type(wattio_io_session), intent(inout) :: session
        integer, intent(out) :: code
        code = c_close(session%handle, c_null_ptr, 0_c_size_t, c_null_ptr)
    end subroutine

    ! The error text of the last failed call.
    function wattio_io_message() result(text)
        character(:), allocatable :: text
        text = copied(c_error())
    end function

    ! The whole report of the last close: JSON text.
    function wattio_io_report() result(text)
        character(:), allocatable :: text
        text = copied(c_report())
    end function

    function copied(found) result(text)
        type(c_ptr), intent(in) :: found
        character(:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        integer :: at
        call c_f_pointer(found, letters, [c_length(found)])
        allocate (character(size(letters)) :: text)
        do at = 1, size(letters)
            text(at:at) = letters(at)
        end do
    end function

    pure function reversed(extents) result(found)
        integer, intent(in) :: extents(:)
        integer(c_int64_t) :: found(size(extents))
        found = int(extents(size(extents):1:-1), c_int64_t)
    end function

end module
