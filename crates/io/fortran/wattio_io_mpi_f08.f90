! Like wattio_io_mpi, for programs that `use mpi_f08`: communicators are type(MPI_Comm).
module wattio_io_mpi_f08
    use mpi_f08, only: MPI_Comm
    use wattio_io
    use wattio_io_mpi, only: open_by_number => wattio_io_open_mpi
    implicit none
    private
    public :: wattio_io_open_mpi

contains

    ! Open on all ranks of a communicator, after MPI_Init. Collective. `compute` becomes the communicator of
    ! the ranks that compute, or MPI_COMM_NULL on ranks that only write.
    subroutine wattio_io_open_mpi(comm, config, session, compute, code)
        type(MPI_Comm), intent(in) :: comm
        character(*), intent(in) :: config
        type(wattio_io_session), intent(out) :: session
        type(MPI_Comm), intent(out) :: compute
        integer, intent(out) :: code
        integer :: found
        call open_by_number(int(comm%mpi_val), config, session, found, code)
        compute%mpi_val = int(found, kind(compute%mpi_val))
    end subroutine

end module
