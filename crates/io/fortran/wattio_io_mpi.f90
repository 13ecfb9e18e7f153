! wattio_io for Fortran programs with MPI. This part comes as source: build it with the compiler of your MPI.
! Handles are those of `use mpi`; wattio_io_mpi_f08 has those of `use mpi_f08`.
module wattio_io_mpi
    use, intrinsic :: iso_c_binding
    use wattio_io
    implicit none
    private
    public :: wattio_io_open_mpi

    interface
        function c_open_mpi(comm, config, io, compute) &
            bind(c, name="wattio_io_open_mpi_f") result(code)
            import :: c_char, c_int, c_ptr
            integer(c_int), value :: comm
            character(kind=c_char), intent(in) :: config(*)
            type(c_ptr), intent(out) :: io
            integer(c_int), intent(out) :: compute
            integer(c_int) :: code
        end function
    end interface

contains

    ! Open on all ranks of a communicator, after MPI_Init. Collective. `compute` becomes the communicator of
    ! the ranks that compute, or MPI_COMM_NULL on ranks that only write.
    subroutine wattio_io_open_mpi(comm, config, session, compute, code)
        integer, intent(in) :: comm
        character(*), intent(in) :: config
        type(wattio_io_session), intent(out) :: session
        integer, intent(out) :: compute, code
        integer(c_int) :: found                 ! of MPI's kind, also where default integers have 8 bytes
        code = c_open_mpi(int(comm, c_int), trim(config) // c_null_char, session%handle, found)
        compute = int(found)
    end subroutine

end module
