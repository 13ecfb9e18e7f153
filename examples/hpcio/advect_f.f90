!> A field carried around a ring of ranks, one row each step, and written by wattio.
!>
!>     mpirun -n 4 ./advect_f hpcio.toml 30 10
!>
!> After `step` steps, row y of the global field is row y - step of the first one.
program advect
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit
    use ring
    use wattio_hpcio
    implicit none

    integer, parameter :: ny = 37, nx = 20
    character(256) :: config
    character(:), allocatable :: account
    type(wattio_session) :: session
    integer :: world, rank, ranks, steps, every, code

    world = ring_begin()
    call ring_place(world, rank, ranks)
    if (command_argument_count() /= 3) then
        write (error_unit, "(a)") "usage: advect_f CONFIG STEPS EVERY"
        call ring_abort(2)
    end if
    call get_command_argument(1, config)
    steps = argument(2)
    every = argument(3)
    call wattio_start(world, config, session, code)
    call check(code)
    if (.not. wattio_is_writer(session)) call simulate()
    call wattio_close(session, account, code)
    call check(code)
    if (rank == 0) write (*, "(a)") account
    call ring_end()

contains

    integer function argument(number)
        integer, intent(in) :: number
        character(16) :: text
        call get_command_argument(number, text)
        read (text, *) argument
    end function

    !> Carry this rank's rows on; row 0 of `u` is the last one of the rank before.
    subroutine simulate()
        real(c_double), allocatable :: u(:, :)
        integer :: comm, own, size, first, rows, x, y, step
        ! From here on, this one instead of MPI_COMM_WORLD.
        comm = wattio_compute_comm(session)
        call ring_place(comm, own, size)
        first = ny * own / size
        rows = ny * (own + 1) / size - first
        allocate (u(nx, 0:rows))
        do y = 1, rows
            do x = 1, nx
                u(x, y) = 0.5d0 * ((first + y - 1) * nx + x - 1)
            end do
        end do
        do step = 0, steps
            if (mod(step, every) == 0) call dump(step, u(:, 1:), first)
            call ring_pass_on(comm, modulo(own + 1, size), modulo(own - 1, size), u(:, rows), &
                u(:, 0), nx)
            u(:, 1:) = u(:, :rows - 1)
        end do
    end subroutine

    subroutine dump(step, u, first)
        integer, intent(in) :: step, first
        real(c_double), intent(in) :: u(:, :)
        real(c_double), pointer :: block(:, :)
        type(c_ptr) :: data
        integer :: code
        call wattio_allocate(session, "u", shape(u), "f8", [nx, ny], [0, first], data, code)
        call check(code)
        call c_f_pointer(data, block, shape(u))
        block = u
        call wattio_end_dump(session, step, code)
        call check(code)
    end subroutine

    !> End all ranks on a failure: one that only left would keep the others waiting.
    subroutine check(code)
        integer, intent(in) :: code
        if (code == wattio_ok) return
        write (error_unit, "(a)") "advect_f: " // wattio_error()
        call ring_abort(code)
    end subroutine
end program
