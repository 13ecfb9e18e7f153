! A field carried around a ring of ranks, one row each step, and written by wattio_io.
!
!     mpirun -n 4 ./advect_f hpcio.toml 30 10
!
! After `step` steps, row y of the global field is row y - step of the first one.
program advect
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit
    use mpi
    use wattio_io
    use wattio_io_mpi
    implicit none

    integer, parameter :: ny = 37, nx = 20
    character(256) :: config
    type(wattio_io_session) :: io
    integer :: comm, level, steps, every, code, rank

    call MPI_Init_thread(MPI_THREAD_MULTIPLE, level, code)
    if (command_argument_count() /= 3) then
        write (error_unit, "(a)") "usage: advect_f CONFIG STEPS EVERY"
        call MPI_Abort(MPI_COMM_WORLD, 2, code)
    end if
    call get_command_argument(1, config)
    steps = argument(2)
    every = argument(3)
    call wattio_io_open_mpi(MPI_COMM_WORLD, config, io, comm, code)
    if (code /= WATTIO_IO_OK) then
        ! All ranks know, and leave in order: launchers may lose what is printed before MPI_Abort.
        call MPI_Comm_rank(MPI_COMM_WORLD, rank, level)
        if (rank == 0) write (error_unit, "(a)") "advect_f: " // wattio_io_message()
        call MPI_Finalize(level)
        stop code
    end if
    if (.not. wattio_io_is_writer(io)) call simulate()
    call wattio_io_close(io, code)
    call check(code)
    call MPI_Finalize(code)

contains

    integer function argument(number)
        integer, intent(in) :: number
        character(16) :: text
        call get_command_argument(number, text)
        read (text, *) argument
    end function

    ! Carry this rank's rows on; row 0 of `u` is the last one of the rank before.
    subroutine simulate()
        real(c_double), allocatable, target :: u(:, :), rows_of(:, :)
        integer(c_int64_t) :: id
        integer :: own, size, first, rows, x, y, step
        call MPI_Comm_rank(comm, own, code)
        call MPI_Comm_size(comm, size, code)
        first = ny * own / size
        rows = ny * (own + 1) / size - first
        allocate (u(nx, 0:rows), rows_of(nx, rows))
        do y = 1, rows
            do x = 1, nx
                u(x, y) = 0.5d0 * ((first + y - 1) * nx + x - 1)
            end do
        end do
        call wattio_io_variable(io, "u", WATTIO_IO_FLOAT64, [nx, rows], id, code, &
                                [nx, ny], [0, first])
        call check(code)
        call wattio_io_attribute(io, id, "units", "m/s", code)
        call check(code)
        do step = 0, steps
            if (mod(step, every) == 0) then
                rows_of = u(:, 1:)
                call wattio_io_begin_step(io, step, code)
                call check(code)
                call wattio_io_attribute(io, WATTIO_IO_STEP, "time", 0.1d0 * step, code)
                call check(code)
                call wattio_io_put(io, id, c_loc(rows_of), code)
                call check(code)
                call wattio_io_end_step(io, code)
                call check(code)
            end if
            call MPI_Sendrecv(u(:, rows), nx, MPI_DOUBLE_PRECISION, modulo(own + 1, size), 0, &
                              u(:, 0), nx, MPI_DOUBLE_PRECISION, modulo(own - 1, size), 0, comm, &
                              MPI_STATUS_IGNORE, code)
            u(:, 1:) = u(:, :rows - 1)
        end do
        call MPI_Comm_free(comm, code)
    end subroutine

    ! End all ranks on a failure: one that only left would keep the others waiting.
    subroutine check(code)
        integer, intent(in) :: code
        integer :: ended
        if (code == WATTIO_IO_OK) return
        write (error_unit, "(a)") "advect_f: " // wattio_io_message()
        call MPI_Abort(MPI_COMM_WORLD, code, ended)
    end subroutine
end program
