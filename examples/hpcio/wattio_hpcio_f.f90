!> The calls of wattio_hpcio.h for Fortran. Extents are in Fortran's order: the first one varies
!> fastest. They are handed on in reverse, so that the files read as those of a C program.
module wattio_hpcio
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: wattio_start, wattio_is_writer, wattio_compute_comm, wattio_allocate
    public :: wattio_end_dump, wattio_close, wattio_error

    integer, parameter, public :: wattio_ok = 0, wattio_dump_failed = 1, wattio_input = 2
    integer, parameter, public :: wattio_host = 3, wattio_other = 4

    type, public :: wattio_session
        private
        type(c_ptr) :: held = c_null_ptr
    end type

    interface
        function c_start(comm, config, session) bind(c, name="wattio_start") result(code)
            import
            integer(c_int), value :: comm
            character(kind=c_char), intent(in) :: config(*)
            type(c_ptr), intent(out) :: session
            integer(c_int) :: code
        end function

        function c_is_writer(session) bind(c, name="wattio_is_writer") result(writer)
            import
            type(c_ptr), value :: session
            integer(c_int) :: writer
        end function

        function c_compute_comm(session) bind(c, name="wattio_compute_comm") result(comm)
            import
            type(c_ptr), value :: session
            integer(c_int) :: comm
        end function

        function c_allocate(session, name, ndim, shape, type, global_shape, offset, data) &
                bind(c, name="wattio_allocate") result(code)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*), type(*)
            integer(c_int), value :: ndim
            integer(c_int64_t), intent(in) :: shape(*), global_shape(*), offset(*)
            type(c_ptr), intent(out) :: data
            integer(c_int) :: code
        end function

        function c_end_dump(session, step) bind(c, name="wattio_end_dump") result(code)
            import
            type(c_ptr), value :: session
            integer(c_int64_t), value :: step
            integer(c_int) :: code
        end function

        function c_close(session, account) bind(c, name="wattio_close") result(code)
            import
            type(c_ptr), value :: session
            type(c_ptr), intent(out) :: account
            integer(c_int) :: code
        end function

        function c_error() bind(c, name="wattio_error") result(text)
            import
            type(c_ptr) :: text
        end function

        function c_strlen(text) bind(c, name="strlen") result(length)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    !> Start on all ranks of a communicator: the integer of `use mpi`, `comm%mpi_val` of `mpi_f08`.
    subroutine wattio_start(comm, config, session, code)
        integer, intent(in) :: comm
        character(*), intent(in) :: config
        type(wattio_session), intent(out) :: session
        integer, intent(out) :: code
        code = c_start(comm, trim(config) // c_null_char, session%held)
    end subroutine

    logical function wattio_is_writer(session)
        type(wattio_session), intent(in) :: session
        wattio_is_writer = c_is_writer(session%held) /= 0
    end function

    integer function wattio_compute_comm(session)
        type(wattio_session), intent(in) :: session
        wattio_compute_comm = c_compute_comm(session%held)
    end function

    !> Memory for one variable of the next dump, for `c_f_pointer` with the same extents. Offsets
    !> begin at 0.
    subroutine wattio_allocate(session, name, extents, type, global_extents, offset, data, code)
        type(wattio_session), intent(in) :: session
        character(*), intent(in) :: name, type
        integer, intent(in) :: extents(:)
        integer, intent(in) :: global_extents(size(extents)), offset(size(extents))
        type(c_ptr), intent(out) :: data
        integer, intent(out) :: code
        code = c_allocate(session%held, trim(name) // c_null_char, size(extents), &
            reversed(extents), trim(type) // c_null_char, reversed(global_extents), &
            reversed(offset), data)
    end subroutine

    subroutine wattio_end_dump(session, step, code)
        type(wattio_session), intent(in) :: session
        integer, intent(in) :: step
        integer, intent(out) :: code
        code = c_end_dump(session%held, int(step, c_int64_t))
    end subroutine

    subroutine wattio_close(session, account, code)
        type(wattio_session), intent(inout) :: session
        character(:), allocatable, intent(out) :: account
        integer, intent(out) :: code
        type(c_ptr) :: told
        code = c_close(session%held, told)
        session%held = c_null_ptr
        account = text(told)
    end subroutine

    !> What went wrong in the call that failed last.
    function wattio_error() result(words)
        character(:), allocatable :: words
        words = text(c_error())
    end function

    pure function reversed(values) result(found)
        integer, intent(in) :: values(:)
        integer(c_int64_t) :: found(size(values))
        found = int(values(size(values):1:-1), c_int64_t)
    end function

    function text(start) result(words)
        type(c_ptr), intent(in) :: start
        character(:), allocatable :: words
        character(kind=c_char), pointer :: letters(:)
        integer :: at
        words = ""
        if (.not. c_associated(start)) return
        call c_f_pointer(start, letters, [int(c_strlen(start))])
        words = repeat(" ", size(letters))
        do at = 1, size(letters)
            words(at:at) = letters(at)
        end do
    end function
end module
